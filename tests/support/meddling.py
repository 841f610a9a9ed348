"""What happens to a fetch while it runs: started inside a place, and told apart by its packets.

`python -c SOURCE WHAT WORKSPACE COMMAND...` starts the command, waits for its first packet, does
what it was told, and prints how the command ended.
"""

SOURCE = """
import json, os, pathlib, signal, subprocess, sys, time

def below(pid):
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_bytes()
                words = pathlib.Path("/proc", entry, "cmdline").read_bytes().split(b"\\0")
            except OSError:
                continue
            if int(stat.rpartition(b")")[2].split()[1]) == pid:
                yield int(entry), words

def started(pid):
    try:
        stat = pathlib.Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    # Dead, and not yet reaped by whoever adopted it, is gone as well.
    return None if stat[0] in (b"Z", b"X") else stat[19]

what, workspace, argv = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
pipe = subprocess.PIPE
run = subprocess.Popen(argv, stdout=pipe, stderr=pipe)
packets = workspace / "handoff/packets/accepted"
end = time.monotonic() + 60
while not any(packets.iterdir()) and run.poll() is None and time.monotonic() < end:
    time.sleep(0.01)
assert run.poll() is None, run.communicate()
boxes = {pid: started(pid) for pid, _ in below(run.pid)}
assert boxes
if what == "kill":
    run.kill()
elif what == "kill-proxy":
    (proxy,) = [pid for pid, words in below(run.pid) if b"--hostname" in words
                and words[words.index(b"--hostname") + 1] == b"proxy"]
    os.kill(proxy, signal.SIGKILL)
elif what == "apply":
    program = argv[: argv.index("threegate") + 1]
    subprocess.run([*program, "policy", "apply", "--yes"], check=True, capture_output=True)
out, err = run.communicate(timeout=90)
end = time.monotonic() + 10
while (left := [pid for pid, at in boxes.items() if started(pid) == at]):
    if time.monotonic() > end:
        break
    time.sleep(0.01)
print(json.dumps({"code": run.returncode, "out": out.decode(), "err": err.decode(), "left": left}))
"""
