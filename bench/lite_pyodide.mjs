// Pyodide as people run it in Node: one interpreter, one JSON line for each program.
// Usage: node lite_pyodide.mjs DIRECTORY_OF_PYODIDE
import { createInterface } from "node:readline";

const { loadPyodide } = await import(`${process.argv[2]}/pyodide.mjs`);
const python = await loadPyodide();
const RUN = `
import json
job = json.loads(line)
names = dict(job["inputs"])
exec(job["code"], names)
json.dumps(names["result"])
`;

for await (const line of createInterface({ input: process.stdin })) {
  const names = python.toPy({ line });
  process.stdout.write(`${python.runPython(RUN, { globals: names })}\n`);
  names.destroy();
}
