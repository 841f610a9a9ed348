// Keys, what was on screen, and news. It writes text and attributes, never markup.
"use strict";
(() => {
  const LEAST_MS = 1500; // the server refuses a yes to what it sent less than a second ago
  const AGAIN_MS = 500; // of several sources each is told, and their request ends after the last
  const TICK_MS = 200; // what stays on screen for two of these was seen
  const $ = (id) => document.getElementById(id);
  const sheet = $("sheet"), decide = $("decide"), form = $("approve");

  // -- what was on screen -----------------------------------------------------------------
  // Positions are in pixels of the sheet; another width moves everything, so it counts anew.
  let seen = [], width = 0, height = 0, last = null;
  const covers = () => document.querySelector("header.top").getBoundingClientRect().bottom; // over the page
  const onScreen = () => {
    const top = covers();
    const bottom = Math.min(window.innerHeight, decide.getBoundingClientRect().top);
    const box = sheet.getBoundingClientRect();
    return [Math.max(0, top - box.top), Math.min(box.height, bottom - box.top)];
  };
  const add = (from, to) => {
    const apart = seen.filter(([a, b]) => b < from || a > to);
    const joined = seen.filter(([a, b]) => !(b < from || a > to));
    const begin = Math.min(from, ...joined.map(([a]) => a));
    const end = Math.max(to, ...joined.map(([, b]) => b));
    seen = [...apart, [begin, end]].sort((a, b) => a[0] - b[0]);
  };
  const unseenAt = () => {
    let at = 0;
    for (const [from, to] of seen) { if (from > at + 1) return at; at = Math.max(at, to); }
    return at >= height - 1 ? -1 : at;
  };
  const covered = () => seen.reduce((sum, [a, b]) => sum + b - a, 0) / Math.max(1, height);
  const zoomed = () => (window.visualViewport?.scale ?? 1) > 1.01;
  const look = () => {
    const box = sheet.getBoundingClientRect();
    if (box.width !== width || box.height !== height) {
      seen = []; last = null; width = box.width; height = box.height;
    }
    // What is zoomed into is laid out as before, and not all of it is on screen.
    if (document.visibilityState !== "visible" || zoomed()) { last = null; update(); return; }
    const [from, to] = onScreen();
    if (last) {
      const begin = Math.max(from, last[0]), end = Math.min(to, last[1]);
      if (end > begin) add(begin, end);
    }
    last = [from, to];
    update();
  };
  const typedRight = () => {
    const typed = $("typed");
    return !typed || typed.value.trim().toLowerCase() === typed.dataset.expected;
  };
  const update = () => {
    if (!form || form.dataset.sent) return;
    const all = unseenAt() < 0 && performance.now() > LEAST_MS, typed = typedRight();
    $("approve-button").disabled = !(all && typed);
    const words = !all && zoomed() ? "zoomed in: what is on screen counts when you zoom out"
      : !all ? `seen ${Math.floor(covered() * 100)} %: scroll through all of it first`
      : !typed ? "all of it was on screen; now type the digits" : "all of it was on screen";
    if ($("seen").textContent !== words) $("seen").textContent = words;
  };
  if (form) {
    look();
    setInterval(look, TICK_MS);
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => {
      if (unseenAt() >= 0 || !typedRight() || form.dataset.sent) { event.preventDefault(); return; }
      form.dataset.sent = "yes";
      $("approve-button").disabled = true;
      $("seen").textContent = "waiting for your key: touch it, or type its passphrase where threegate serve runs";
    });
  }

  // -- what Monty says, asked of a box when the page is there --------------------------------
  if ($("verdict")) {
    fetch(`${location.pathname}/verdict`).then((answer) => answer.json())
      .then((found) => { $("verdict").textContent = found.words; })
      .catch(() => { $("verdict").textContent = "Monty was not asked"; });
  }

  // -- files: a name is proposed, and what is too much is said before it is sent ---------------
  const files = document.querySelector("form[data-most]");
  if (files) {
    const chosen = () => [...files.querySelectorAll("input[type=file]")].flatMap((one) => [...one.files]);
    const tooMuch = () => chosen().reduce((sum, one) => sum + one.size, 0) > Number(files.dataset.most);
    files.addEventListener("change", (event) => {
      if (event.target.type !== "file") return;
      const name = files.elements[event.target.name.replace("file", "name")];
      const stem = (event.target.files[0]?.name ?? "").replace(/\.[^.]*$/, "").toLowerCase();
      if (!name.value) name.value = stem.replace(/[^a-z0-9]+/g, "_").replace(/^[0-9_]+|_+$/g, "").slice(0, 64);
      $("too-much").hidden = !tooMuch();
    });
    files.addEventListener("submit", (event) => { if (tooMuch()) event.preventDefault(); });
  }

  // -- a small screen: the list of pages scrolls sideways, to where we are -----------------------
  document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // -- keys ---------------------------------------------------------------------------------
  const items = () => [...document.querySelectorAll("[data-list] .open")];
  const move = (by) => {
    const found = items();
    if (!found.length) { window.scrollBy(0, by * 60); return; }
    const at = found.indexOf(document.activeElement);
    const next = found[Math.min(Math.max(at + by, 0), found.length - 1)];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const approve = () => {
    if (!form) return;
    const at = unseenAt();
    if (at >= 0) {
      window.scrollTo(0, window.scrollY + sheet.getBoundingClientRect().top + at - covers() - 8);
    } else if (!typedRight()) { $("typed").focus(); } else { $("approve-button").focus(); }
  };
  const search = () => { const field = document.querySelector("input[type=search]"); if (field) field.focus(); };
  const help = () => { const box = $("help"); if (box && !box.open) box.showModal(); };
  const keys = {
    j: () => move(1), k: () => move(-1), a: approve, d: () => $("reason") && $("reason").focus(),
    i: () => { location.href = "/inbox"; }, r: () => location.reload(), "?": help, "/": search,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const field = event.target.closest("input, textarea, select");
    if (event.key === "Escape" && field) { field.blur(); return; }
    if (field || $("help")?.open || event.repeat && event.key === "a") return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  $("help-button")?.addEventListener("click", help);

  // -- news -----------------------------------------------------------------------------------
  const news = (words) => {
    $("live-words").textContent = words;
    $("live").hidden = false;
    $("live-reload").href = location.pathname + location.search;
  };
  const gone = () => news("No news any more.");
  // A browser has six connections to a server, and a stream keeps one: one tab listens for all.
  const follows = "follows" in document.body.dataset;
  // What takes a while, `ask` or `search`: told by news, and asked for should news be missed.
  const doing = $("asking")?.dataset.asking;
  const isOver = () => fetch(`/${doing}/state`).then((answer) => answer.json()).then((found) => {
    if (found.over && found.next) location.href = found.next; else if (found.over) location.reload();
  }).catch(gone);
  let again = 0;
  const hear = (kind, data) => {
    if (doing) {
      if (kind === `${doing}ing`) $("asking-words").textContent = String(JSON.parse(data).words);
      if (kind === `${doing}ed` || kind === "missed") isOver();
      return;
    }
    if (kind === "ran" && sheet && location.pathname.endsWith(JSON.parse(data).request)) {
      // A page that shows it as approved or running is old now; a form does not go away by itself.
      if (form) news(`It ran: ${JSON.parse(data).outcome}.`);
      else if (["approved", "claimed"].includes(sheet.dataset.state)) {
        clearTimeout(again);
        again = setTimeout(() => location.reload(), AGAIN_MS);
      }
    } else if ((kind === "changed" || kind === "missed") && follows) { news("Something changed."); }
  };
  if (doing) setInterval(isOver, 2000);
  // Number of the last event this page has taken in; a number of an earlier run means nothing.
  const KEPT = 64;
  let [run, heard] = document.body.dataset.heard.split("-");
  const kept = []; // of the tab that listens, for tabs that were loading meanwhile
  const take = (event) => {
    const [its, number] = event.id.split("-");
    if (its === run && Number(number) <= Number(heard)) return;
    [run, heard] = [its, number];
    hear(event.kind, event.data);
  };
  if (navigator.locks && window.BroadcastChannel) {
    const others = new BroadcastChannel("threegate-events");
    others.addEventListener("message", (message) => {
      if (message.data.kind) take(message.data);
      else for (const event of kept) others.postMessage(event); // a new tab asks what it missed
    });
    others.postMessage({});
    navigator.locks.request("threegate-events", () => new Promise((over) => {
      const source = new EventSource(`/events?after=${run}-${heard}`);
      // A lost connection is tried again; a refusal is for good, and another tab may try.
      source.addEventListener("error", () => {
        if (source.readyState === EventSource.CLOSED) { gone(); over(); }
      });
      for (const kind of ["changed", "missed", "ran", "asking", "asked", "searching", "searched"]) {
        source.addEventListener(kind, (found) => {
          const event = { id: found.lastEventId, kind, data: found.data };
          take(event);
          others.postMessage(event);
          kept.push(event);
          if (kept.length > KEPT) kept.shift();
        });
      }
    }));
  }
})();
