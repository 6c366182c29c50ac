// Draws the charts of a report. Everything it shows is in the page; it loads nothing.
"use strict";
(() => {
  const AXIS_LEFT = 50, AXIS_RIGHT = 18;
  const ERRORS_ONLY = 1;           // the log level that Vega calls Error
  const items = new Map();         // figure -> what it shows
  const live = new Map();          // figure -> {result, outer}: its picture, and the width for which it was drawn
  const turns = new Map();         // figure -> its last drawing, begun or waiting
  const text = (tag, content, name) => {
    const node = document.createElement(tag);
    if (content) node.textContent = content;
    if (name) node.className = name;
    return node;
  };

  // ---- data -------------------------------------------------------------------------------------------------------
  async function unpack(id) {
    const packed = atob(document.getElementById(id).textContent.trim());
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function rows(columns) {
    const names = Object.keys(columns);
    const length = names.length ? columns[names[0]].length : 0;
    return Array.from({ length }, (_, i) => Object.fromEntries(names.map((n) => [n, columns[n][i]])));
  }

  function csv(columns, headers) {
    const names = Object.keys(columns);
    // A text is never a formula, nor anything that a terminal obeys (weir.report.names.as_text).
    const acting = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
    const hex = (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
    const number = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
    const text = (v) => (/^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(v) && !number.test(v) ? "'" : "") + v.replace(acting, hex);
    const told = (v) => (typeof v === "string" ? text(v) : String(v));
    const quoted = (v) => (/[",]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
    const cell = (v) => (v === null ? "" : quoted(told(v)));
    const lines = [names.map((n) => cell(headers[n] || n)).join(",")];
    for (const row of rows(columns)) lines.push(names.map((n) => cell(row[n])).join(","));
    return lines.join("\n") + "\n";
  }

  function save(name, type, content) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // ---- charts -----------------------------------------------------------------------------------------------------
  const SPARE = 12;                                // a narrower panel may have wider numbers on its axis
  function setWidth(spec, width, columns, spacing) {
    if (spec.concat) {
      spec.columns = columns;
      spec.concat.forEach((part) => setWidth(part, (width - spacing * (columns - 1)) / columns, 1, 0));
    } else if (spec.vconcat) spec.vconcat.forEach((part) => setWidth(part, width, columns, spacing));
    else if (spec.spec) {
      if ("columns" in spec) spec.columns = columns;
      setWidth(spec.spec, (width - spacing * (columns - 1)) / columns, 1, 0);
    } else spec.width = Math.max(40, Math.floor(width));
  }

  const isGrid = (spec) => spec.facet && (spec.facet.row || spec.facet.column);

  function fitted(item, outer, { excess, columns: entries }) {
    const spec = structuredClone(item.spec);
    if (entries) spec.config.legend = { ...spec.config.legend, columns: entries };
    const grid = isGrid(spec);
    let columns = item.columns;
    const own = item.columns > 1 && !grid;        // each panel has its own y axis beside it
    if (own) columns = Math.max(1, Math.min(columns, Math.floor(outer / (item.panel + AXIS_LEFT))));
    const spacing = typeof spec.spacing === "number" ? spec.spacing : 0;
    const labels = grid && spec.facet.row ? spec.facet.row.sort : [];
    const right = Math.max(AXIS_RIGHT, ...labels.map((label) => 14 + 7.4 * Math.min(33, label.length)));
    let width = outer - (spec.concat ? columns : 1) * (AXIS_LEFT + right) - excess;
    if (grid) width = Math.max(width, columns * item.panel);
    setWidth(spec, width, columns, spacing);
    spec.datasets = Object.fromEntries(Object.entries(item.data).map(([name, data]) => [name, rows(data)]));
    return spec;
  }

  function embed(holder, item, outer, room) {
    return vegaEmbed(holder, fitted(item, outer, room), {
      renderer: "svg", actions: false, ast: true, defaultStyle: false, hover: false,
      tooltip: { theme: "weir", disableDefaultStyle: true }, mode: "vega-lite", logLevel: ERRORS_ONLY,
    });
  }

  // The number of columns that a legend needs to be as narrow as the page; 0 if it is, with `now` columns (0: one row).
  function legendColumns(holder, outer, now) {
    const wide = [...holder.querySelectorAll(".role-legend")].filter(
      (legend) => AXIS_LEFT + legend.getBoundingClientRect().width > outer,
    );
    const wanted = wide.map((legend) => {
      const before = now || legend.querySelectorAll(".role-legend-label text").length;
      const fitting = Math.floor((before * outer) / (AXIS_LEFT + legend.getBoundingClientRect().width));
      return Math.max(1, Math.min(before - 1, fitting));
    });
    return wanted.length ? Math.min(...wanted) : 0;
  }

  // One drawing of a figure at a time: of two that interleave, the one for an old width may end last.
  function draw(figure) {
    const turn = (turns.get(figure) ?? Promise.resolve()).then(() => drawNow(figure)).catch((error) => {
      figure.append(text("p", `This chart could not be drawn (${error}).`, "problem"));
      console.error(error);
    });
    turns.set(figure, turn);
    return turn;
  }

  // Draws a figure if it is visible and has no picture of its width.
  async function drawNow(figure) {
    const item = items.get(figure), holder = figure.querySelector(".plot");
    const outer = holder.clientWidth;
    const old = live.get(figure);
    if (!outer || (old && Math.abs(outer - old.outer) <= 8)) return;
    if (old) old.result.finalize();
    const room = { excess: 0, columns: 0 };       // what is known once the picture is drawn
    let result = await embed(holder, item, outer, room);
    const again = async () => {
      result.finalize();
      result = await embed(holder, item, outer, room);
    };
    for (let n = 0; room.columns !== 1 && (n = legendColumns(holder, outer, room.columns)); ) {
      room.columns = n;
      await again();
    }
    const excess = Number(holder.querySelector("svg").getAttribute("width")) - outer;
    if (excess > 0 && !isGrid(item.spec)) {       // names on the axis take more room than numbers
      room.excess = Math.ceil(excess) + SPARE;
      await again();
    }
    live.set(figure, { result, outer });
    const cell = figure.closest(".cell");
    if (cell && cell.window) show(result.view, cell.window);
  }

  function build(container, item, prefix, bare) {
    const figure = text("figure", "", item.half ? "chart half" : "chart");
    figure.id = `${prefix}-${item.name}`;
    if (!bare) figure.append(text("h4", item.title));
    figure.append(text("div", "", "plot"));
    const caption = text("figcaption", item.caption);
    for (const note of item.notes) caption.append(" ", text("span", note, "note"));
    const tools = text("span", "", "tools");
    const button = (label, action) => {
      const b = text("button", label);
      b.type = "button";
      b.setAttribute("aria-label", `Save “${item.title}” as ${label}`);
      b.addEventListener("click", action);
      tools.append(b);
    };
    const name = `${figure.id}`.replace(/[^A-Za-z0-9._-]+/g, "_");
    const view = () => live.get(figure).result.view;
    button("SVG", async () => {
      const svg = (await view().toSVG()).replaceAll("currentColor", "#111");
      save(`${name}.svg`, "image/svg+xml", svg);
    });
    for (const [set, data] of Object.entries(item.data)) {
      const several = Object.keys(item.data).length > 1;
      button(several ? `CSV ${set}` : "CSV", () => save(`${name}-${set}.csv`, "text/csv", csv(data, item.csv)));
    }
    caption.append(tools);
    figure.append(caption);
    container.append(figure);
    items.set(figure, item);
  }

  // Draws the figures of a part of the page that became visible, or has another width.
  async function refresh(part) {
    for (const figure of items.keys()) if (part.contains(figure)) await draw(figure);
  }

  async function fill(container) {
    if (container.dataset.filled) return refresh(container);
    container.dataset.filled = "yes";
    container.setAttribute("aria-busy", "true");
    let found;
    try {
      found = await unpack(container.dataset.blob);
    } catch (error) {
      container.append(text("p", `The charts cannot be unpacked by this browser (${error}).`, "problem"));
      return;
    }
    const only = container.dataset.only;          // the figure that leads the page, from the charts further down
    if (only) found = found.filter((item) => item.name === only).map((item) => ({ ...item, half: false }));
    const lead = container.classList.contains("lead");
    const prefix = lead ? "lead" : container.dataset.blob;
    let section = null;
    for (const item of found) {
      if (!lead && item.section !== section) container.append(text("h3", (section = item.section)));
      build(container, item, prefix, lead && !only);
    }
    await refresh(container);
    container.removeAttribute("aria-busy");
  }

  // ---- window of time of a cell -----------------------------------------------------------------------------------
  function show(view, [from, to]) {
    try {
      view.signal("tmin", from).signal("tmax", to).runAsync();
    } catch { /* a chart without a time axis */ }
  }

  function setWindow(cell, from, to) {
    cell.window = [from, to];
    cell.querySelector("[name=from]").value = from;
    cell.querySelector("[name=to]").value = to;
    for (const b of cell.querySelectorAll(".window button"))
      b.setAttribute("aria-pressed", String(Number(b.dataset.from) === from && Number(b.dataset.to) === to));
    for (const [figure, { result }] of live) if (cell.contains(figure)) show(result.view, cell.window);
    remember(cell);
  }

  function wireWindow(cell) {
    const form = cell.querySelector(".window");
    if (!form) return;
    for (const b of form.querySelectorAll("button"))
      b.addEventListener("click", () => setWindow(cell, Number(b.dataset.from), Number(b.dataset.to)));
    const typed = () => {
      const [from, to] = ["from", "to"].map((n) => Number(form.querySelector(`[name=${n}]`).value));
      if (from < to) setWindow(cell, from, to);
    };
    for (const input of form.querySelectorAll("input")) input.addEventListener("change", typed);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  // ---- choosing a cell --------------------------------------------------------------------------------------------
  const cells = [...document.querySelectorAll(".cell")];
  const picker = document.getElementById("picker");

  async function choose(cell) {
    for (const other of cells) other.hidden = other !== cell;
    if (picker) {
      const factors = JSON.parse(cell.dataset.factors);
      for (const select of picker.querySelectorAll("select")) select.value = factors[select.name];
      picker.querySelector("output").textContent = `${cells.indexOf(cell) + 1} of ${cells.length}`;
    }
    const charts = cell.querySelector(".charts");
    if (charts) await fill(charts);
  }

  // The address names the cell and the window shown, so that a view can be passed on: #cell-3@10-20.
  function remember(cell) {
    const whole = cell.querySelector(".window button")?.getAttribute("aria-pressed") !== "false";
    history.replaceState(null, "", `#${cell.id}${whole ? "" : `@${cell.window.join("-")}`}`);
  }

  function picked() {
    const wanted = Object.fromEntries([...picker.querySelectorAll("select")].map((s) => [s.name, s.value]));
    const same = (c) => Object.entries(wanted).filter(([k, v]) => JSON.parse(c.dataset.factors)[k] === v).length;
    const best = cells.reduce((a, b) => (same(b) > same(a) ? b : a));
    remember(best);
    choose(best);
  }

  function step(by) {
    const now = cells.findIndex((c) => !c.hidden);
    const next = cells[(now + by + cells.length) % cells.length];
    remember(next);
    choose(next);
  }

  async function fromHash() {
    const [, id, from, to] = /^#(cell-\d+)(?:@([\d.]+)-([\d.]+))?$/.exec(location.hash) || [];
    const wanted = cells.find((c) => c.id === id);
    if (!wanted) return false;
    await choose(wanted);
    if (to && Number(from) < Number(to)) setWindow(wanted, Number(from), Number(to));
    wanted.scrollIntoView();
    return true;
  }

  // ---- print ------------------------------------------------------------------------------------------------------
  // Paper has no folds: all are open while the page is printed. What unfolds from the question and from the verdicts
  // goes to the end, so that the outcome and the table of the verdicts come first and together.
  const opened = [];
  const APART = ".asked, .verdicts > .verdict > details";

  function unfold() {
    for (const fold of document.querySelectorAll("details:not([open]):not(.bulk)")) {
      if (fold.matches(APART)) continue;
      fold.open = true;
      opened.push(fold);
    }
    for (const [title, folds] of [["The verdicts in detail", ".verdicts > .verdict > details"], ["The set-up", ".asked"]]) {
      const part = text("section", "", "at-end");
      part.append(text("h2", title));
      for (const fold of document.querySelectorAll(folds)) part.append(...copied(fold));
      if (part.childElementCount > 1) document.querySelector("main").append(part);
    }
  }

  // The contents of a fold, below its title if it is a verdict's.
  function copied(fold) {
    const [summary, ...rest] = [...fold.children].map((child) => child.cloneNode(true));
    for (const inner of rest) if (inner.matches("details")) inner.open = true;
    if (fold.matches(".asked")) return rest;
    const verdict = text("article", "", "verdict"), head = text("p", "", "head");
    head.append(...summary.childNodes);
    verdict.append(head, ...rest);
    return [verdict];
  }

  function refold() {
    for (const fold of opened.splice(0)) fold.open = false;
    for (const part of document.querySelectorAll(".at-end")) part.remove();
  }

  async function start() {
    document.documentElement.classList.add("js");
    cells.forEach(wireWindow);
    if (picker) {
      picker.hidden = false;
      picker.addEventListener("change", picked);
      picker.querySelector("[data-step='-1']").addEventListener("click", () => step(-1));
      picker.querySelector("[data-step='1']").addEventListener("click", () => step(1));
      picker.addEventListener("submit", (event) => event.preventDefault());
    }
    window.addEventListener("hashchange", fromHash);
    window.addEventListener("beforeprint", unfold);
    window.addEventListener("afterprint", refold);
    for (const name of [".charts.lead", ".charts[data-blob=run]:not(.lead)"]) {
      const charts = document.querySelector(name);
      if (charts) await fill(charts);
    }
    if (cells.length && !(await fromHash())) await choose(cells[0]);
    document.documentElement.dataset.ready = "yes";
  }

  let timer = 0;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => refresh(document), 250);
  });
  start();
})();
