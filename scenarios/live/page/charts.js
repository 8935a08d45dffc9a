// The charts of the live page: bounded points by second or minute, drawn by ECharts. Colours come from the style sheet.
"use strict";
window.liveCharts = (() => {
  const LATENCY = [["p50", 0, "p50"], ["p95", 1, "p95"], ["p99", 2, "p99"]];
  const latency = (key) => LATENCY.map(([name, index, colour]) => ({ name, colour, of: (p) => p[key] && p[key][index] }));
  const CHARTS = [
    { id: "ttft_ms", title: "TTFT", note: "ms, requests that ended in the last 10 s", lines: latency("ttft_ms"), slo: "ttft_ms" },
    { id: "tpot_ms", title: "TPOT", note: "ms per output token", lines: latency("tpot_ms"), slo: "tpot_ms" },
    { id: "tok_s", title: "Output tokens/s", note: "by time of arrival, in flight included", lines: [{ name: "tokens/s", colour: "tokens", area: true, of: (p) => p.tok_s }] },
    { id: "in_flight", title: "In flight", note: "waiting: no token yet; queued: due, not started", lines: [
      { name: "in flight", colour: "flight", of: (p) => p.in_flight }, { name: "waiting", colour: "wait", area: true, of: (p) => p.waiting }, { name: "queued", colour: "bad", of: (p) => p.queued || null }, { name: "users", colour: "users", dashed: true, of: (p) => p.users }] },
    { id: "itl_ms", title: "ITL", note: "ms between token events", lines: latency("itl_ms") },
    { id: "e2e_ms", title: "E2E latency", note: "ms, sent to end mark", lines: latency("e2e_ms"), slo: "e2e_ms" },
    { id: "requests", title: "Requests/s", note: "ended, whatever became of them", lines: [
      { name: "ended", colour: "requests", of: (p) => p.req_s }, { name: "failed", colour: "bad", area: true, of: (p) => p.fail_s }] },
    { id: "ttft_class", title: "TTFT p95 by length class", note: "ms", classes: "ttft_ms", slo: "ttft_ms" },
    { id: "tpot_class", title: "TPOT p95 by length class", note: "ms per output token", classes: "tpot_ms", slo: "tpot_ms" },
  ];
  const HUES = ["p95", "tokens", "requests", "flight", "wait", "bad", "users", "p99"];
  const drawn = new Map();
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const short = (v) => v == null ? "–" : v >= 1000 ? Math.round(v).toLocaleString("en") : v >= 10 ? v.toFixed(1) : v.toFixed(2);

  function make(box) {
    for (const { id, title, note } of CHARTS) {
      const figure = document.createElement("figure"), caption = document.createElement("figcaption"), plot = document.createElement("div");
      const name = document.createElement("b"), about = document.createElement("span");
      name.textContent = title;
      about.textContent = note;
      caption.append(name, about);
      plot.className = "plot";
      plot.id = `chart-${id}`;
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", `${title}: ${note}`);
      figure.append(caption, plot);
      box.append(figure);
      drawn.set(id, echarts.init(plot, null, { renderer: "canvas" }));
    }
    new ResizeObserver(() => drawn.forEach((chart) => chart.resize())).observe(box);
  }

  function series(points, line) {
    return points.map((p) => [p.t * 1000, line.of(p) ?? null]);
  }

  // measure phases as bands, so that one sees which level a stretch belongs to
  function bands(levels, from) {
    return levels.filter((l) => l.measure_start && (!l.measure_end || l.measure_end > from)).map((l) => [
      { xAxis: Math.max(l.measure_start, from) * 1000, name: l.label }, { xAxis: (l.measure_end || Date.now() / 1000) * 1000 }]);
  }

  // a round number at or above a value
  function top(value) {
    const step = 10 ** Math.floor(Math.log10(value));
    return step * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((n) => n * step >= value);
  }

  // one line per length class that the shown points know, the shortest prompt first
  function classLines(points, metric) {
    const names = [...new Set(points.flatMap((p) => Object.keys(p.classes || {})))].sort((a, b) => parseFloat(a) - parseFloat(b) || (a < b ? -1 : 1));
    return names.map((name, index) => ({ name: name || "all", colour: HUES[index % HUES.length], of: (p) => p.classes && p.classes[name] && p.classes[name][metric] }));
  }

  function option(given, points, levels, slo) {
    const chart = given.classes ? { ...given, lines: classLines(points, given.classes) } : given;
    const limit = chart.slo && slo ? slo[chart.slo] : null, from = points.length ? points[0].t : 0;
    const most = Math.max(0, ...points.flatMap((p) => chart.lines.map((line) => line.of(p) ?? 0)));
    const soft = css("soft"), rule = css("line"), faint = css("faint");
    return {
      animation: false, textStyle: { fontFamily: css("font"), color: soft, fontSize: 11 }, grid: { left: 8, right: 14, top: 30, bottom: 4, containLabel: true },
      legend: { top: 0, right: 0, itemWidth: 14, itemHeight: 6, icon: "roundRect", textStyle: { color: soft, fontSize: 11 }, show: chart.lines.length > 1, data: chart.lines.map((l) => l.name) },
      tooltip: { trigger: "axis", confine: true, backgroundColor: css("card"), borderColor: rule, textStyle: { color: css("ink"), fontSize: 12 }, valueFormatter: short },
      xAxis: { type: "time", axisLine: { lineStyle: { color: rule } }, axisTick: { show: false }, axisLabel: { color: soft, hideOverlap: true, alignMaxLabel: "right", alignMinLabel: "left", formatter: { minute: "{HH}:{mm}", second: "{HH}:{mm}:{ss}" } }, splitNumber: 4, splitLine: { show: false } },
      yAxis: { type: "value", min: 0, max: limit && limit < 3 * most && limit > most ? top(limit * 1.08) : null, splitNumber: 3, axisLabel: { color: soft }, splitLine: { lineStyle: { color: rule, type: "dashed" } } },
      series: (chart.lines.length ? chart.lines : [{ name: "", colour: "users", of: () => null }]).map((line, index) => ({
        name: line.name, type: "line", showSymbol: points.length < 3, symbolSize: 4, connectNulls: false, color: css(line.colour), data: series(points, line),
        lineStyle: { width: line.dashed ? 1 : 1.8, type: line.dashed ? "dashed" : "solid" }, areaStyle: line.area ? { opacity: 0.14 } : undefined,
        markLine: index === 0 && limit ? { silent: true, symbol: "none", data: [{ yAxis: limit }], lineStyle: { color: css("good"), type: "dashed" }, label: { formatter: `SLO ${limit}`, position: "insideEndTop", color: css("good"), fontSize: 11 } } : undefined,
        markArea: index === 0 ? { silent: true, itemStyle: { color: css("band") }, label: { color: faint, fontSize: 10, position: "insideTop" }, data: bands(levels, from) } : undefined,
      })),
      graphic: points.length ? [] : [{ type: "text", left: "center", top: "middle", style: { text: "no data yet", fill: faint } }],
    };
  }

  function draw(points, levels, slo) {
    for (const chart of CHARTS) drawn.get(chart.id).setOption(option(chart, points, levels, slo), true);
    document.documentElement.dataset.points = String(points.length);
  }
  return { make, draw, short };
})();
