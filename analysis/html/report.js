// Draws the charts of the report from the JSON in the page. No network; colours come from the style sheet.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const shown = { frontier: "ttft_ms", ecdf: "ttft_ms", drift: "ttft" };
  const NAMES = { ttft_ms: "TTFT", tpot_ms: "TPOT", itl_ms: data.chunked ? "inter-chunk latency" : "ITL", e2e_ms: "E2E" };
  const SERIES = { frontier, interactivity, ttft: () => byLevel("ttft_ms"), tpot: () => byLevel("tpot_ms"), ecdf, outcomes, drift, timeline };
  const charts = new Map();

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = () => Object.fromEntries(["ink", "soft", "faint", "line", "card", "ttft", "tpot", "end", "good", "warn", "bad", "accent"].map((n) => [n, css("--" + n)]));
  const ms = (v) => v == null ? "–" : v >= 1000 ? Math.round(v).toLocaleString("en") : v >= 10 ? v.toFixed(1) : v.toFixed(2);
  const num = (v, digits = 0) => v == null ? "–" : v.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
  const text = (s) => String(s).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

  // levels are ordered, so their colours are a ramp and not a set of hues
  function ramp(index, count) {
    const t = count < 2 ? 0.5 : index / (count - 1);
    const hue = 195 + 120 * t;
    return `hsl(${hue} ${62 + 10 * t}% ${matchMedia("(prefers-color-scheme: dark)").matches && !printing ? 68 - 6 * t : 47 - 8 * t}%)`;
  }
  let printing = false;

  function base(c, extra) {
    return {
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: css("--font"), color: c.soft, fontSize: 12 },
      aria: { enabled: true }, grid: { left: 12, right: 28, top: 58, bottom: 34, containLabel: true, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      tooltip: { trigger: "item", confine: true, backgroundColor: c.card, borderColor: c.line, textStyle: { color: c.ink, fontSize: 12 } },
      legend: { top: 2, left: 0, itemWidth: 14, itemHeight: 8, type: "scroll", textStyle: { color: c.soft }, pageTextStyle: { color: c.soft } },
      ...extra,
    };
  }
  const axis = (c, name, extra) => ({
    name, nameLocation: "middle", nameGap: 26, nameTextStyle: { color: c.faint }, axisLine: { lineStyle: { color: c.line } }, axisTick: { show: false },
    axisLabel: { color: c.soft, hideOverlap: true }, splitLine: { lineStyle: { color: c.line, type: "dashed" } }, ...extra,
  });
  const yAxis = (c, name, extra) => axis(c, name, { nameLocation: "end", nameGap: 10, nameTextStyle: { color: c.faint, align: "left" }, ...extra });

  function sloMarks(c, limit) {
    if (limit == null) return {};
    return {
      markLine: { silent: true, symbol: "none", lineStyle: { color: c.good, type: "dashed" }, label: { formatter: `SLO ${ms(limit)} ms`, position: "insideStartTop", color: c.good }, data: [{ yAxis: limit }] },
      markArea: { silent: true, itemStyle: { color: c.good, opacity: 0.07 }, data: [[{ yAxis: 0 }, { yAxis: limit }]] },
    };
  }

  function frontier(c) {
    const metric = shown.frontier, tail = data.slo ? data.slo.tail : "p95";
    const limit = data.slo && data.slo.limits[metric];
    const line = (part, colour, width) => ({
      name: `${NAMES[metric]} ${part}`, type: "line", symbol: "circle", symbolSize: 8, color: colour, lineStyle: { width }, 
      data: data.levels.filter((l) => l[metric][part] != null && l.output_tok_s != null).map((l) => ({ value: [l.output_tok_s, l[metric][part]], level: l })),
      label: { show: part === tail, position: "top", color: c.ink, formatter: (p) => p.data.level.label, fontWeight: 600 },
    });
    return base(c, {
      xAxis: axis(c, "output tokens/s", { type: "value", min: 0 }), yAxis: yAxis(c, "ms", { type: "value", min: 0, max: topOf(data.levels.map((l) => l[metric][tail]), limit) }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `<b>concurrency ${text(p.data.level.label)}</b><br>${text(p.seriesName)} ${ms(p.value[1])} ms<br>${num(p.value[0])} output tokens/s<br>SLO met ${p.data.level.slo_attainment == null ? "–" : num(p.data.level.slo_attainment * 100, 1) + " %"}` },
      series: [{ ...line(tail, c.accent, 2.5), ...sloMarks(c, limit) }, line("p50", c.faint, 1.5)],
    });
  }
  // the axis reaches up to the limit unless that would flatten the values
  function topOf(values, limit) {
    const most = Math.max(0, ...values.filter((v) => v != null));
    const top = 1.08 * (limit != null && limit < 3 * most ? Math.max(most, limit) : most);
    if (!(top > 0)) return null;
    const step = 10 ** Math.floor(Math.log10(top));
    return step * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((n) => n * step >= top);
  }

  function interactivity(c) {
    const points = data.levels.filter((l) => l.tok_s_per_user != null && l.output_tok_s != null);
    return base(c, {
      legend: { show: false }, xAxis: axis(c, "tokens/s per user", { type: "value", min: 0 }), yAxis: yAxis(c, "output tokens/s", { type: "value", min: 0 }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `<b>concurrency ${text(p.data.level.label)}</b><br>${num(p.value[1])} output tokens/s<br>${num(p.value[0], 1)} tokens/s per user` },
      series: [{
        name: "levels", type: "line", symbol: "circle", color: c.accent, symbolSize: 10, lineStyle: { width: 2.5 },
        data: points.map((l) => ({ value: [l.tok_s_per_user, l.output_tok_s], level: l, itemStyle: data.slo ? { color: l.meets_slo ? c.good : c.bad } : {} })),
        label: { show: true, position: "right", color: c.ink, fontWeight: 600, formatter: (p) => p.data.level.label },
      }],
    });
  }

  function byLevel(metric) {
    return (c) => {
      const main = c[metric.slice(0, 4)] || c.accent, limit = data.slo && data.slo.limits[metric];
      const styles = { p99: ["dotted", 0.55], p95: ["solid", 1], p50: ["solid", 0.55], mean: ["dashed", 0.8] };
      return base(c, {
        xAxis: axis(c, "concurrency", { type: "category", data: data.levels.map((l) => l.label), boundaryGap: false }), yAxis: yAxis(c, "ms", { type: "value", min: 0, max: topOf(data.levels.map((l) => l[metric].p99), limit) }),
        tooltip: { ...base(c).tooltip, trigger: "axis", valueFormatter: (v) => ms(v) + " ms" },
        series: Object.entries(styles).map(([part, [type, opacity]], i) => ({
          name: part, type: "line", symbol: "circle", color: main, symbolSize: part === "p95" ? 7 : 4, lineStyle: { type, opacity, width: part === "p95" ? 2.5 : 1.8 }, itemStyle: { opacity },
          data: data.levels.map((l) => l[metric][part]), ...(i === 0 ? sloMarks(c, limit) : {}),
        })),
      });
    };
  }

  function ecdf(c) {
    const metric = shown.ecdf, limit = data.slo && data.slo.limits[metric];
    const marks = limit == null ? {} : { markLine: { silent: true, symbol: "none", lineStyle: { color: c.good, type: "dashed" }, label: { formatter: `SLO ${ms(limit)} ms`, color: c.good, position: "end", rotate: 0 }, data: [{ xAxis: limit }] } };
    return base(c, {
      xAxis: axis(c, `${NAMES[metric]}, ms`, { type: "log", min: "dataMin", max: "dataMax", axisLabel: { color: c.soft, hideOverlap: true, formatter: (v) => (v >= 10 ? Math.round(v).toLocaleString("en") : +v.toPrecision(2)) } }),
      yAxis: yAxis(c, "share of values", { type: "value", min: 0, max: 1, axisLabel: { color: c.soft, formatter: (v) => v * 100 + " %" } }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `<b>concurrency ${text(p.seriesName)}</b><br>${num(p.value[1] * 100, 1)} % at or below ${ms(p.value[0])} ms` },
      series: data.levels.map((l, i) => ({
        name: l.label, type: "line", step: "end", showSymbol: false, symbolSize: 5, color: ramp(i, data.levels.length), lineStyle: { width: 2 },
        data: (data.ecdf[l.level] || {})[metric] || [], triggerLineEvent: true, ...(i === 0 ? marks : {}),
      })),
    });
  }

  function outcomes(c) {
    const kinds = [["success", c.good], ["failure", c.bad], ["empty", c.warn], ["cut_off", c.faint]];
    return base(c, {
      xAxis: axis(c, "concurrency", { type: "category", data: data.levels.map((l) => l.label) }), yAxis: yAxis(c, "requests", { type: "value", minInterval: 1 }),
      tooltip: { ...base(c).tooltip, trigger: "axis", axisPointer: { type: "shadow" } },
      series: kinds.map(([name, color]) => ({ name: name.replace("_", " "), type: "bar", stack: "all", barMaxWidth: 46, color, itemStyle: { opacity: 0.82 }, data: data.levels.map((l) => l[name]) })),
    });
  }

  function drift(c) {
    const level = [...data.windows].reverse().sort((a, b) => b.minutes.length - a.minutes.length)[0], key = shown.drift;
    const lines = key === "output_tok_s" ? [["output tokens/s", level.output_tok_s, c.accent]] : [["p95", level[key + "_p95"], c[key]], ["p50", level[key + "_p50"], c.faint]];
    return base(c, {
      xAxis: axis(c, "minutes since the measure phase began", { type: "value" }), yAxis: yAxis(c, key === "output_tok_s" ? "tokens/s" : "ms", { type: "value", min: 0 }),
      tooltip: { ...base(c).tooltip, trigger: "axis" },
      series: lines.map(([name, values, color]) => ({ name, type: "line", symbol: "circle", color, symbolSize: 5, data: values.map((v, i) => [level.minutes[i], v]) })),
    });
  }

  function timeline(c) {
    const rows = [...(data.timelines[document.getElementById("timeline-level").value] || [])].reverse();
    const names = rows.map((r) => r.name);
    const bar = (name, color, from, to) => ({
      name, type: "custom", color, itemStyle: { color }, encode: { x: [1, 2], y: 0 },
      data: rows.map((r, i) => [i, from(r), to(r)]).filter((d) => d[1] != null && d[2] != null && d[2] > d[1]),
      renderItem: (params, api) => {
        const start = api.coord([api.value(1), api.value(0)]), end = api.coord([api.value(2), api.value(0)]), height = 26;
        return { type: "rect", shape: { x: start[0], y: start[1] - height / 2, width: Math.max(end[0] - start[0], 1), height, r: 3 }, style: { fill: color, opacity: 0.85 } };
      },
    });
    const ticks = {
      name: "token events", type: "custom", color: c.ink, silent: true, encode: { x: 1, y: 0 }, data: rows.flatMap((r, i) => r.arrivals_ms.map((a) => [i, a])),
      renderItem: (params, api) => {
        const p = api.coord([api.value(1), api.value(0)]);
        return { type: "rect", shape: { x: p[0], y: p[1] + 16, width: 1, height: 8 }, style: { fill: c.ink, opacity: 0.55 } };
      },
    };
    const labels = {
      name: "instants", type: "custom", silent: true, encode: { x: 1, y: 0 }, tooltip: { show: false }, data: rows.length ? [["t0 sent", 0], ["t1 first token", rows.at(-1).first_ms], ["t2 last token", rows.at(-1).last_ms]].map(([n, v]) => [rows.length - 1, v, n]) : [],
      renderItem: (params, api) => {
        const p = api.coord([api.value(1), api.value(0)]), last = params.dataIndex === 2;
        return { type: "group", children: [
          { type: "line", shape: { x1: p[0], y1: p[1] - 26, x2: p[0], y2: p[1] + 13 }, style: { stroke: c.ink, lineWidth: 1.5 } },
          { type: "text", style: { text: `${api.value(2)} ${params.dataIndex ? ms(api.value(1)) + " ms" : ""}`, x: p[0] + (last ? 0 : 0), y: p[1] - (params.dataIndex === 1 ? 46 : 32), fill: c.ink, font: `600 11px ${css("--font")}`, align: last ? "right" : "left", verticalAlign: "middle" } },
        ] };
      },
    };
    return base(c, {
      grid: { ...base(c).grid, top: 74 }, legend: { ...base(c).legend, data: ["queue + prefill", "decode", "tail to end mark", "token events"] },
      xAxis: axis(c, "ms since sent", { type: "value", min: 0 }), yAxis: axis(c, "", { type: "category", data: names, splitLine: { show: false } }),
      tooltip: { ...base(c).tooltip, formatter: (p) => { const r = rows[p.value[0]]; return `<b>${text(r.name)}</b> ${text(r.request_id)}<br>TTFT ${ms(r.first_ms)} ms, decode ${ms(r.last_ms - r.first_ms)} ms, E2E ${ms(r.e2e_ms)} ms<br>${num(r.input_tokens)} tokens in, ${num(r.output_tokens)} out`; } },
      series: [bar("queue + prefill", c.ttft, () => 0, (r) => r.first_ms), bar("decode", c.tpot, (r) => r.first_ms, (r) => r.last_ms), bar("tail to end mark", c.end, (r) => r.last_ms, (r) => r.e2e_ms), ticks, labels],
    });
  }

  function option(id) {
    const made = SERIES[id], c = colours();
    const drawn = id === "ttft" || id === "tpot" ? made()(c) : made(c);
    const empty = !drawn.series.some((s) => s.data && s.data.some((d) => d != null));
    if (empty) drawn.graphic = { type: "text", left: "center", top: "middle", style: { text: "No data", fill: c.faint, font: `14px ${css("--font")}` } };
    drawn.aria = { enabled: true, label: { description: describe(id, drawn) } };
    return drawn;
  }

  // what a screen reader hears instead of the picture
  function describe(id, drawn) {
    const title = document.querySelector(`#fig-${id} h3`).textContent, note = document.querySelector(`#fig-${id} figcaption`).textContent;
    const metric = shown[id] || id + "_ms";
    const values = data.levels.filter((l) => l[metric] && l[metric].p95 != null).map((l) => `${l.label}: ${ms(l[metric].p95)} ms`).join(", ");
    return `${title}. ${note} ${values ? `p95 by concurrency: ${values}.` : ""} The numbers are in the tables of this page.`;
  }

  function draw(id) {
    const element = document.getElementById(id);
    if (!element) return;
    if (!charts.has(id)) charts.set(id, echarts.init(element, null, { renderer: "svg" }));
    charts.get(id).setOption(option(id), true);
  }
  const drawAll = () => Object.keys(SERIES).forEach(draw);

  function save(id, kind) {
    const chart = charts.get(id), link = document.createElement("a");
    link.download = `${id}.${kind}`;
    if (kind === "svg") {
      link.href = chart.getDataURL({ type: "svg", backgroundColor: css("--card") });
    } else {
      const box = document.createElement("div");
      box.style.cssText = `width:${chart.getWidth()}px;height:${chart.getHeight()}px;position:absolute;left:-9999px`;
      document.body.append(box);
      const copy = echarts.init(box, null, { renderer: "canvas", devicePixelRatio: 2 });
      copy.setOption(option(id));
      link.href = copy.getDataURL({ type: "png", pixelRatio: 2, backgroundColor: css("--card") });
      copy.dispose();
      box.remove();
    }
    link.click();
  }

  document.querySelectorAll(".switch").forEach((group) => group.addEventListener("click", (event) => {
    const key = event.target.dataset.key;
    if (!key) return;
    shown[group.dataset.for] = key;
    group.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.key === key)));
    draw(group.dataset.for);
  }));
  document.querySelectorAll("[data-save]").forEach((b) => b.addEventListener("click", () => save(b.dataset.for, b.dataset.save)));
  document.getElementById("timeline-level").addEventListener("change", () => draw("timeline"));
  new ResizeObserver(() => charts.forEach((chart) => chart.resize())).observe(document.querySelector("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { printing = true; drawAll(); charts.forEach((chart) => chart.resize()); });
  addEventListener("afterprint", () => { printing = false; drawAll(); charts.forEach((chart) => chart.resize()); });
  drawAll();
  document.documentElement.dataset.drawn = String(charts.size);
})();
