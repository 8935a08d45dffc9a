// Polls the figures once a second and shows them. Texts are set as text, never as markup: they may come from the engine.
"use strict";
(() => {
  const base = document.body.dataset.base, { make, draw, short } = window.liveCharts;
  const SECONDS = 900, MINUTES = 1800, REDRAWN_S = 120; // bounded like the server's rings; token counts are put right for a while
  const points = { seconds: new Map(), minutes: new Map() };
  let range = "seconds", runId = null, chosen = null, latest = null;

  const $ = (id) => document.getElementById(id);
  const whole = (v) => v == null ? "–" : Math.round(v).toLocaleString("en");
  const percent = (v) => v == null ? "–" : `${(100 * v).toFixed(v > 0.999 || v === 0 ? 0 : 1)} %`;
  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text != null) made.textContent = text;
    if (className) made.className = className;
    return made;
  }
  const fill = (parent, children) => parent.replaceChildren(...children);

  function theme() {
    const chosen = localStorage.theme; // Locust's own switch
    document.documentElement.dataset.theme = chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  function remember(kind, fresh, limit) {
    for (const point of fresh) points[kind].set(point.t, point);
    for (const old of [...points[kind].keys()].slice(0, Math.max(0, points[kind].size - limit))) points[kind].delete(old);
  }
  const lastOf = (kind) => Math.max(0, ...points[kind].keys());

  async function poll() {
    try {
      const since = runId ? lastOf("seconds") - REDRAWN_S : 0, minutes = runId ? lastOf("minutes") : 0;
      const answer = await fetch(`${base}/data?since=${since}&minutes_since=${minutes}`, { cache: "no-store" });
      if (answer.redirected || !answer.ok) throw new Error(answer.redirected ? "logged out" : `status ${answer.status}`);
      trouble(null);
      show(await answer.json());
    } catch (error) {
      trouble(`No new figures from Locust: ${error.message}. Showing the last ones.`);
    }
    setTimeout(poll, 1000);
  }

  function trouble(text) {
    $("trouble").hidden = !text;
    $("trouble").textContent = text || "";
  }

  function show(data) {
    $("main").hidden = !data.run;
    for (const id of ["report", "files", "stop", "state"]) $(id).hidden = !data.run;
    if (!data.run) return;
    if (data.run.id !== runId) {
      if (runId !== null) { points.seconds.clear(); points.minutes.clear(); }
      runId = data.run.id;
      chosen = null;
    }
    remember("seconds", data.seconds, SECONDS);
    remember("minutes", data.minutes, MINUTES);
    latest = data;
    head(data);
    progress(data);
    tiles(data);
    lights(data.lights);
    failures(data.failures);
    levels(data);
    workers(data.workers);
    redraw();
  }

  function redraw() {
    if (latest) draw([...points[range].values()], latest.bands, latest.slo);
  }

  function head({ run, files }) {
    $("name").textContent = run.name;
    $("about").textContent = [run.model, run.host, run.engine, run.id].filter(Boolean).join(" · ");
    $("state").textContent = run.state;
    $("state").className = `pill ${run.state}`;
    $("stop").disabled = run.state !== "running";
    $("stop").hidden = run.state === "ended";
    $("report").href = `${base}/report`;
    $("report").textContent = run.state === "ended" ? "Report" : "Report so far";
    fill($("files").querySelector("ul"), files.map(({ name, bytes }) => {
      const item = element("li"), link = element("a", name);
      link.href = `${base}/files/${encodeURIComponent(name)}`;
      link.append(element("span", bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`));
      item.append(link);
      return item;
    }));
  }

  function progress({ progress: p, run }) {
    const level = p.level == null ? "Starting" : `Level ${p.level}${p.levels ? ` of ${p.levels}` : ""} · ${p.mode} ${p.requested}`;
    $("where").textContent = run.state === "ended" ? `Ended after ${p.level ?? 0} level${p.level === 1 ? "" : "s"}` : p.phase ? `${level} · ${p.phase}` : level;
    $("eta").textContent = run.state === "running" && p.eta_s ? `about ${p.eta_s >= 120 ? `${Math.round(p.eta_s / 60)} min` : `${Math.round(p.eta_s)} s`} left` : "";
    const share = run.state === "ended" ? 1 : p.share ?? 0;
    $("bar").style.width = `${100 * share}%`;
    $("bar").parentElement.setAttribute("aria-valuenow", String(Math.round(100 * share)));
  }

  function tile(name, value, unit, note, className) {
    const box = element("div", null, className), figure = element("dd", value);
    if (unit) figure.append(" ", element("small", unit));
    box.append(element("dt", name), figure, element("p", note));
    return box;
  }

  function tiles({ now, total, levels: rows, slo, started }) {
    const row = rows.at(-1), measured = row && row.success;
    const of = (key) => (measured ? row[key] : now[key]) || [null, null, null];
    const scope = measured ? "this level" : "last 10 s", over = (key) => slo && slo[key] && of(key)[1] > slo[key] ? "bad" : "";
    const lost = total.ended - total.success;
    fill($("tiles"), [
      tile("Output", whole(now.tok_s), "tokens/s", "last 5 s"),
      tile("TTFT p95", short(of("ttft_ms")[1]), "ms", `p50 ${short(of("ttft_ms")[0])} · ${scope}`, over("ttft_ms")),
      tile("TPOT p95", short(of("tpot_ms")[1]), "ms", `p50 ${short(of("tpot_ms")[0])} · ${scope}`, over("tpot_ms")),
      tile("In flight", whole(now.in_flight), "", `${whole(now.waiting)} wait for a token${now.queued ? `, ${whole(now.queued)} queued` : ""}`),
      tile("Requests", whole(total.ended), "ended", `${whole(started)} started`),
      tile("Without success", whole(lost), "", total.ended ? percent(lost / total.ended) : "–", lost ? "bad" : ""),
      ...(slo ? [tile("Within the SLO", percent(row && row.slo_share), "", `${percent(slo.attainment)} asked for`, row && row.slo_share != null ? (row.slo_share >= slo.attainment ? "good" : "bad") : "")] : []),
    ]);
  }

  function lights(all) {
    fill($("lights"), all.map(({ name, status, reason }) => {
      const item = element("li", null, status), dot = element("i");
      dot.title = status;
      item.append(dot, element("b", name), element("span", status === "ok" || status === "note" ? reason : `${status}: ${reason}`));
      return item;
    }));
  }

  function failures(counts) {
    const all = Object.entries(counts).sort((a, b) => b[1] - a[1]), most = Math.max(1, ...all.map(([, n]) => n));
    fill($("failures"), all.length ? all.map(([name, count]) => {
      const row = element("div", null, "fail"), track = element("div"), bar = element("i");
      bar.style.width = `${(100 * count) / most}%`;
      track.append(bar);
      row.append(element("span", name), track, element("span", whole(count)));
      return row;
    }) : [element("p", "None so far.", "empty")]);
  }

  function cells(row, tr, tokens) {
    tr.append(element("td", whole(row.ended)), element("td", whole(row.failed), row.failed ? "bad" : ""));
    for (const key of ["ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"]) tr.append(element("td", row[key].map(short).join(" · ")));
    tr.append(element("td", whole(tokens)), element("td", percent(row.slo_share)));
    return tr;
  }

  function levels({ levels: rows, progress: p, run }) {
    const head = element("tr");
    head.append(element("th", "level", "text"));
    for (const name of ["ended", "failed", "TTFT", "TPOT", "ITL", "E2E", "tok/s", "in SLO"]) head.append(element("th", name));
    const thead = element("thead"), body = element("tbody");
    thead.append(head);
    const open = chosen ?? (rows.at(-1) && rows.at(-1).level);
    for (const row of rows) {
      const tr = element("tr", null, `level${run.state !== "ended" && row.level === p.level ? " current" : ""}`);
      tr.append(element("th", `${row.mode} ${row.requested}`, "text"));
      tr.addEventListener("click", () => { chosen = row.level; levels(latest); });
      body.append(cells(row, tr, row.tok_s));
      const classes = Object.entries(row.classes || {});
      if (row.level === open && classes.length > 1) for (const [name, part] of classes) {
        const line = element("tr", null, "class");
        line.append(element("td", `prompt ${name || "–"}`));
        body.append(cells(part, line, null));
      }
    }
    fill($("levels"), [thead, body]);
  }

  function workers(rows) {
    const head = element("tr"), thead = element("thead"), body = element("tbody");
    head.append(element("th", "worker", "text"), element("th", "host", "text"));
    for (const name of ["CPU", "lag", "memory", "in flight", "started", "clock offset", "state"]) head.append(element("th", name));
    thead.append(head);
    for (const row of rows) {
      const tr = element("tr");
      tr.append(element("th", `${row.worker} ${row.name}`, "text"), element("td", row.host, "text"));
      tr.append(element("td", row.cpu_percent == null ? "–" : `${whole(row.cpu_percent)} %`, row.cpu_percent >= 90 ? "bad" : ""));
      tr.append(element("td", row.hub_lag_ms == null ? "–" : `${short(row.hub_lag_ms)} ms`, row.hub_lag_ms > 50 ? "bad" : ""));
      tr.append(element("td", row.memory_mb == null ? "–" : `${whole(row.memory_mb)} MB`), element("td", whole(row.in_flight)), element("td", whole(row.started)));
      tr.append(element("td", `${short(Math.abs(row.clock_offset_ms))} ± ${short(row.clock_uncertainty_ms)} ms`), element("td", row.lost ? "lost" : row.final ? "done" : "sends", row.lost ? "bad" : "good"));
      body.append(tr);
    }
    fill($("workers"), [thead, body]);
  }

  $("stop").addEventListener("click", async () => {
    $("stop").disabled = true;
    await fetch(`${base}/stop`, { method: "POST" });
  });
  document.querySelectorAll("[data-range]").forEach((button) => button.addEventListener("click", () => {
    range = button.dataset.range;
    document.querySelectorAll("[data-range]").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    redraw();
  }));
  addEventListener("storage", () => { theme(); redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(); redraw(); });
  document.body.classList.toggle("embedded", new URLSearchParams(location.search).has("embedded"));
  theme();
  make($("charts"));
  show({ run: null });
  poll();
})();
