"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const view = document.getElementById("view"), side = document.getElementById("side"), search = document.getElementById("search");
const TABS = ["Summary", "Source", "Kernels", "Timeline", "Memory", "State"];
const state = { which: 0, program: 0, tab: 0, sort: "seconds", chosen: -1, word: "" };

// ---- words and elements
const duration = s => s >= 1 ? s.toFixed(1) + " s" : s >= 1e-3 ? (s * 1e3).toFixed(s < 0.1 ? 1 : 0) + " ms" : (s * 1e6).toFixed(s < 1e-4 ? 1 : 0) + " us";
const amount = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(1) + " GiB" : n >= 2 ** 20 ? (n / 2 ** 20).toFixed(1) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
const short = name => name.split("::").pop().split(".")[0].replace(/^_+/, "");
const unique = list => [...new Set(list)];
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "rect", "path", "text", "g", "line", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter(c => c !== null && c !== undefined));
  return element;
}
const explained = () => content.explanations[state.which];
const program = () => explained().programs[state.program] || { kernels: [], spans: [], buffers: [], operators: {}, stages: [] };
const whole = () => program().kernels.reduce((sum, k) => sum + k.seconds, 0) || 1;
const matches = (...texts) => !state.word || texts.join(" ").toLowerCase().includes(state.word);

// ---- from a line to its kernels and back
function secondsOf() {  // of each place: a kernel's time in equal parts to its lines
  const seconds = {};
  for (const k of program().kernels) for (const place of k.lines) seconds[place] = (seconds[place] || 0) + k.seconds / k.lines.length;
  return seconds;
}
const kernelsOf = place => program().kernels.map((k, i) => [k, i]).filter(([k]) => k.lines.includes(place)).sort((a, b) => b[0].seconds - a[0].seconds);
const placeLink = place => make("button", { class: "link mono", onclick: e => { e.stopPropagation(); showLine(place); } }, place);
const kernelLink = i => make("button", { class: "link mono", onclick: e => { e.stopPropagation(); showKernel(i); } }, program().kernels[i].name);
function listed(items, separator = ", ") { return items.flatMap((item, i) => i ? [separator, item] : [item]); }

// ---- the views
function summary() {
  const e = explained(), p = program();
  const out = [make("pre", {}, e.lines.join("\n"))];
  if (p.stages.length) out.push(make("h2", {}, "Operators of the program " + p.title + ", by stage"), make("table", {}, make("tbody", {}, ...p.stages.map(([name, count]) => make("tr", {}, make("td", {}, name), make("td", { class: "number" }, String(count)))))));
  if (p["not timed"]) out.push(make("p", { class: "dim" }, "not timed: " + p["not timed"]));
  return out;
}
function source() {
  const seconds = secondsOf(), total = whole(), operators = program().operators || {};
  const files = unique([...Object.keys(seconds), ...Object.keys(operators)].map(p => p.slice(0, p.lastIndexOf(":"))));
  const most = Math.max(...Object.values(seconds), 1e-12), out = [];
  const time = f => Object.entries(seconds).filter(([p]) => p.startsWith(f + ":")).reduce((s, [, v]) => s + v, 0);
  for (const file of files.sort((a, b) => time(b) - time(a))) {
    const lines = content.files[file] || [];
    const rows = lines.map((text, i) => {
      const place = file + ":" + (i + 1), s = seconds[place] || 0, known = s > 0 || operators[place];
      if (!matches(text, place)) return null;
      return make("tr", { id: "at-" + place, class: known ? "hot" : "", style: s ? `background: rgba(var(--hot), ${(0.08 + 0.42 * s / most).toFixed(3)})` : "", onclick: known ? () => showLine(place) : undefined },
        make("td", { class: "time mono" }, s ? duration(s) : ""), make("td", { class: "time mono" }, s ? (100 * s / total).toFixed(0) + " %" : ""), make("td", { class: "time mono" }, String(i + 1)), make("td", { class: "text mono" }, text));
    });
    out.push(make("h2", {}, file), make("table", { class: "source" }, make("tbody", {}, ...rows)));
  }
  if (!files.length) out.push(make("p", { class: "dim" }, "No kernel belongs to a line of yours."));
  return out;
}
function kernels() {
  const total = whole();
  const columns = [["share", "seconds"], ["time", "seconds"], ["launches", "launches"], ["bytes", "bytes"], ["GB/s", "rate"], ["kernel", "name"], ["lines", ""], ["operators", ""], ["reads, writes", ""]];
  const rate = k => k.seconds ? k.bytes * k.launches / k.seconds : 0;
  const value = { seconds: k => -k.seconds, launches: k => -k.launches, bytes: k => -k.bytes, rate: k => -rate(k), name: k => k.name }[state.sort];
  const rows = program().kernels.map((k, i) => [k, i]).filter(([k]) => matches(k.name, k.operators.join(" "), k.lines.join(" "), k.params.join(" ")))
    .sort((a, b) => value(a[0]) < value(b[0]) ? -1 : value(a[0]) > value(b[0]) ? 1 : a[1] - b[1]);
  const shown = rows.slice(0, 2000).map(([k, i]) => make("tr", { class: "row" + (i === state.chosen ? " chosen" : ""), "data-kernel": i, onclick: () => showKernel(i) },
    make("td", { class: "number" }, (100 * k.seconds / total).toFixed(1) + " %"), make("td", { class: "number" }, duration(k.seconds)), make("td", { class: "number" }, String(k.launches)), make("td", { class: "number" }, amount(k.bytes)), make("td", { class: "number" }, (rate(k) / 1e9).toFixed(1)),
    make("td", { class: "mono" }, k.name), make("td", {}, ...listed(k.lines.slice(0, 4).map(placeLink))), make("td", {}, unique(k.operators.map(short)).slice(0, 6).join(", ")), make("td", {}, k.params.slice(0, 4).join(", "))));
  return [make("table", {}, make("thead", {}, make("tr", {}, ...columns.map(([title, key]) => make("th", { class: ["share", "time", "launches", "bytes", "GB/s"].includes(title) ? "number" : "", onclick: key ? () => { state.sort = key; draw(); } : undefined }, title)))), make("tbody", {}, ...shown)),
    rows.length > 2000 ? make("p", { class: "dim" }, `${rows.length - 2000} more; search for one`) : null];
}
const color = i => `hsl(${(i * 47) % 360} 55% 55%)`;
function timeline() {
  const p = program(), spans = p.spans, out = [];
  if (!spans.length) return [make("p", { class: "dim" }, "Nothing was timed.")];
  const end = Math.max(p.seconds || 0, ...spans.map(s => s[3])), threads = unique(spans.map(s => s[1])).sort((a, b) => a - b), width = 1200, left = 80, height = 34;
  const x = t => left + (width - left - 10) * t / end, svg = make("svg", { viewBox: `0 0 ${width} ${threads.length * height + 30}`, role: "img", "aria-label": "timeline of threads" });
  threads.forEach((t, row) => svg.append(make("text", { x: 8, y: row * height + 22 }, t ? "worker " + t : "caller")));
  for (const [kernel, thread, from, to] of spans) {
    const k = p.kernels[kernel], row = threads.indexOf(thread);
    svg.append(make("rect", { class: "box" + (kernel === state.chosen ? " chosen" : ""), x: x(from), y: row * height + 6, width: Math.max(0.6, x(to) - x(from)), height: height - 10, fill: k ? color(k.same) : "#999", opacity: k && !matches(k.name, k.operators.join(" "), k.lines.join(" ")) ? 0.15 : 1, onclick: k ? () => showKernel(kernel) : undefined },
      make("title", {}, k ? `${k.name}: ${duration(to - from)}\n${k.lines.join(", ")}\n${unique(k.operators.map(short)).join(", ")}` : `NumPy: ${duration(to - from)}`)));
  }
  for (let i = 0; i <= 5; i++) svg.append(make("text", { x: x(end * i / 5), y: threads.length * height + 20, "text-anchor": i === 5 ? "end" : "start" }, duration(end * i / 5)));
  out.push(make("p", { class: "dim" }, `The shortest run: ${duration(p.seconds)}, of that ${duration(p.native)} in native code, ${duration(p.host)} in NumPy. A box is a kernel's part on one thread; what lies between is Python, launching, or waiting.`), svg);
  if (p["more spans"]) out.push(make("p", { class: "dim" }, `${p["more spans"]} later boxes are left out.`));
  return out;
}
function memory() {
  const p = program(), count = p.kernels.length;
  if (!p.buffers.length) return [make("p", { class: "dim" }, "Nothing is kept between kernels.")];
  const held = new Array(count + 2).fill(0);
  for (const [bytes, , , first, last] of p.buffers) { held[first] += bytes; held[Math.min(last, count) + 1] -= bytes; }
  for (let i = 1; i < held.length; i++) held[i] += held[i - 1];
  const peak = Math.max(...held), at = held.indexOf(peak), width = 1200, height = 220, x = i => 60 + (width - 70) * i / Math.max(1, count), y = b => height - 25 - (height - 45) * b / (peak || 1);
  let path = `M ${x(0)} ${y(0)}`;
  for (let i = 0; i <= count; i++) path += ` L ${x(i)} ${y(held[i])} L ${x(i + 1 > count ? count : i + 1)} ${y(held[i])}`;
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "memory between kernels" }, make("path", { d: path + ` L ${x(count)} ${y(0)} Z`, fill: "var(--accent)", opacity: 0.35 }),
    make("line", { x1: x(at), x2: x(at), y1: 12, y2: height - 25, stroke: "rgb(var(--hot))" }), make("text", { x: 6, y: y(peak) + 4 }, amount(peak)), make("text", { x: 6, y: y(0) }, "0"), make("text", { x: x(0), y: height - 6 }, "first kernel"), make("text", { x: x(count), y: height - 6, "text-anchor": "end" }, "last kernel"));
  const holders = p.buffers.filter(b => b[3] <= at && at <= b[4] && matches(b[1], b[2].join(" "))).slice(0, 200);
  const rows = holders.map(([bytes, operator, places, first, last]) => make("tr", {}, make("td", { class: "number" }, amount(bytes)), make("td", {}, short(operator)), make("td", {}, ...listed(places.map(placeLink))), make("td", {}, p.kernels[first] ? kernelLink(first) : "", " to ", p.kernels[last] ? kernelLink(last) : "the end")));
  return [make("p", { class: "dim" }, `Memory between kernels, kernel by kernel. The peak of ${amount(peak)} is at kernel ${at} (${p.kernels[at] ? p.kernels[at].name : "the end"})` + (p.arena ? `; the program's arena, where buffers take turns, has ${amount(p.arena)}.` : ".")), svg,
    make("h2", {}, "What is held at the peak"), make("table", {}, make("thead", {}, make("tr", {}, ...["bytes", "made by", "line", "from kernel to kernel"].map((t, i) => make("th", { class: i ? "" : "number" }, t)))), make("tbody", {}, ...rows))];
}
function lists() {
  const e = explained(), p = program(), all = { ...e.lists, loops: p.loops || [], "outside of native code": p.foreign || [] };
  return Object.entries(all).filter(([, entries]) => entries.length).flatMap(([title, entries]) => {
    const shown = entries.filter(line => matches(line));
    return [make("h2", {}, `${title}: ${entries.length}`), make("pre", {}, shown.slice(0, 3000).join("\n") || "(nothing that the search finds)")];
  });
}

// ---- beside the view
function besides(...children) {
  side.replaceChildren(make("button", { onclick: closeSide, title: "close (Escape)", style: "float:right" }, "\u00d7"), ...children);
  side.hidden = false; document.body.classList.add("with-side");
}
function closeSide() { side.hidden = true; document.body.classList.remove("with-side"); state.chosen = -1; }
function showKernel(i) {
  const p = program(), k = p.kernels[i], text = p.kernels[k.same];
  state.chosen = i;
  besides(make("h2", { class: "mono" }, k.name), make("p", {}, `${duration(k.seconds)} (${(100 * k.seconds / whole()).toFixed(1)} %) in ${k.launches} launch${k.launches === 1 ? "" : "es"}; ${amount(k.bytes)} and ${k.operations.toLocaleString("en")} operations each` + (k.seconds ? `: ${(k.bytes * k.launches / k.seconds / 1e9).toFixed(1)} GB/s, ${(k.operations * k.launches / k.seconds / 1e9).toFixed(1)} G operations/s` : "")),
    make("p", {}, "lines: ", ...listed(k.lines.map(placeLink))), make("p", {}, "operators: " + unique(k.operators.map(short)).join(", ")), k.params.length ? make("p", {}, "reads, writes: " + k.params.join(", ")) : null,
    make("h2", {}, "loops"), make("pre", {}, text.nest || "(a kernel of weft's own)"), ...(text.code ? [make("h2", {}, "machine code"), make("pre", {}, text.code)] : []));
  document.querySelectorAll("tr.chosen").forEach(r => r.classList.remove("chosen"));
  const row = document.querySelector(`tr[data-kernel="${i}"]`);
  if (row) row.classList.add("chosen");
}
function showLine(place) {
  const at = place.lastIndexOf(":"), text = (content.files[place.slice(0, at)] || [])[place.slice(at + 1) - 1] || "";
  const rows = kernelsOf(place).map(([k, i]) => make("tr", { class: "row", onclick: () => showKernel(i) }, make("td", { class: "number" }, duration(k.seconds)), make("td", {}, kernelLink(i)), make("td", {}, unique(k.operators.map(short)).slice(0, 6).join(", "))));
  const operators = Object.entries((program().operators || {})[place] || {}).map(([name, count]) => make("tr", {}, make("td", { class: "mono" }, name), make("td", { class: "number" }, String(count))));
  besides(make("h2", { class: "mono" }, place), make("pre", {}, text.trim()), make("p", {}, make("button", { class: "link", onclick: () => { state.word = search.value = ""; go(1); const row = document.getElementById("at-" + place); if (row) row.scrollIntoView({ block: "center" }); } }, "show it in the source")),
    make("h2", {}, "kernels"), make("table", {}, make("tbody", {}, ...rows)), make("h2", {}, "operators of the optimized graph"), make("table", {}, make("tbody", {}, ...operators)));
}

// ---- moving about
const VIEWS = [summary, source, kernels, timeline, memory, lists];
function draw() {
  view.replaceChildren(...VIEWS[state.tab]().filter(Boolean));
  [...document.getElementById("tabs").children].forEach((b, i) => b.setAttribute("aria-selected", i === state.tab));
}
function go(tab) { state.tab = tab; draw(); location.hash = TABS[tab].toLowerCase(); }
function choose() {
  const select = document.getElementById("program");
  select.replaceChildren(...explained().programs.map((p, i) => make("option", { value: i }, p.title || "program")));
  select.hidden = explained().programs.length < 2;
  const times = explained().programs.map(p => p.seconds || 0);
  state.program = Math.max(0, times.indexOf(Math.max(...times, 0))); select.value = state.program;
}
function move(step) {
  const rows = [...document.querySelectorAll("tr.row[data-kernel]")];
  if (!rows.length) return;
  const at = rows.findIndex(r => +r.dataset.kernel === state.chosen), next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  showKernel(+next.dataset.kernel); next.scrollIntoView({ block: "nearest" });
}
function theme(dark) { document.documentElement.classList.toggle("dark", dark); try { localStorage.setItem("weft-dark", dark ? "1" : ""); } catch { /* a page from a file may not keep it */ } }
function begin() {
  let kept = null;
  try { kept = localStorage.getItem("weft-dark"); } catch { /* with it */ }
  theme(kept === null ? matchMedia("(prefers-color-scheme: dark)").matches : kept === "1");
  const which = document.getElementById("which");
  which.append(...content.explanations.map((e, i) => make("option", { value: i }, e.name)));
  which.hidden = content.explanations.length < 2;
  which.addEventListener("change", () => { state.which = +which.value; closeSide(); choose(); draw(); });
  document.getElementById("program").addEventListener("change", e => { state.program = +e.target.value; closeSide(); draw(); });
  document.getElementById("tabs").append(...TABS.map((name, i) => make("button", { role: "tab", onclick: () => go(i), title: `${name} (${i + 1})` }, name)));
  document.getElementById("theme").addEventListener("click", () => theme(!document.documentElement.classList.contains("dark")));
  document.getElementById("keys").textContent = "1 to 6: views \u00b7 j, k: next, previous kernel \u00b7 / search \u00b7 Escape: close \u00b7 d: dark or light";
  search.addEventListener("input", () => { state.word = search.value.toLowerCase(); draw(); });
  document.addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Escape") { closeSide(); search.blur(); if (state.word) { state.word = search.value = ""; } draw(); return; }
    if (document.activeElement === search) { if (e.key === "Enter") view.focus(); return; }
    if (e.key === "/") { e.preventDefault(); search.focus(); }
    else if (e.key === "d") document.getElementById("theme").click();
    else if (e.key === "j" || e.key === "k") move(e.key === "j" ? 1 : -1);
    else if (+e.key >= 1 && +e.key <= TABS.length) go(+e.key - 1);
  });
  choose();
  const tab = TABS.findIndex(t => "#" + t.toLowerCase() === location.hash);
  state.tab = tab < 0 ? 0 : tab;
  draw();
}
begin();
