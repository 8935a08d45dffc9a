// The charts of a comparison: every run as a line, every change with its interval.
"use strict";
(() => {
  const { data, shown, css, ms, num, text, ramp, base, axis, yAxis, sloMarks, topOf } = page;
  const MORE_IS_BETTER = new Set(["output_tok_s", "requests_s", "goodput"]);
  const limitOf = (metric) => data.slo && data.slo.limits[metric];

  function lines(c, point, top, limit) {
    return data.runs.map((run, i) => ({
      name: run.name, type: "line", symbol: "circle", symbolSize: 8, color: ramp(i, data.runs.length), lineStyle: { width: 2.5 },
      data: run.levels.map((l) => ({ value: point(l), level: l })).filter((d) => !Array.isArray(d.value) || d.value.every((v) => v != null)), ...(i === 0 ? sloMarks(c, limit) : {}),
    }));
  }

  function frontier(c) {
    const metric = shown.frontier, limit = limitOf(metric);
    const top = topOf(data.runs.flatMap((run) => run.levels.map((l) => l[metric].p95)), limit);
    return base(c, {
      xAxis: axis(c, "output tokens/s", { type: "value", min: 0 }), yAxis: yAxis(c, "ms", { type: "value", min: 0, max: top }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `<b>${text(p.seriesName)}</b><br>concurrency ${text(p.data.level.label)}<br>${ms(p.value[1])} ms, ${num(p.value[0])} tokens/s` },
      series: lines(c, (l) => [l.output_tok_s, l[metric].p95], top, limit).map((s, i, all) => ({ ...s, label: { show: i === all.length - 1, position: "top", color: c.ink, formatter: (p) => p.data.level.label } })),
    });
  }

  function bylevel(c) {
    const metric = shown.bylevel, rate = metric === "output_tok_s", limit = rate ? null : limitOf(metric);
    const value = (l) => (rate ? l.output_tok_s : l[metric].p95);
    const labels = [...new Set(data.runs.flatMap((run) => run.levels.map((l) => l.label)))];
    const top = topOf(data.runs.flatMap((run) => run.levels.map(value)), limit);
    return base(c, {
      xAxis: axis(c, "concurrency", { type: "category", data: labels, boundaryGap: false }), yAxis: yAxis(c, rate ? "tokens/s" : "ms", { type: "value", min: 0, max: top }),
      tooltip: { ...base(c).tooltip, trigger: "axis" },
      series: lines(c, (l) => [l.label, value(l)], top, limit),
    });
  }

  // right of zero is better, whatever the figure
  function effects(c) {
    const rows = data.effects.flatMap((comparison) => comparison.effects.filter((e) => e.change != null).map((e) => ({ ...e, other_name: comparison.other }))).reverse();
    const turn = (e, v) => (v == null ? null : (MORE_IS_BETTER.has(e.figure) ? 1 : -1) * v * 100);
    const colour = { better: c.good, worse: c.bad };
    const label = (e) => `${data.effects.length > 1 ? e.other_name + " · " : ""}${e.figure} @ ${e.level}`;
    document.getElementById("effects").style.height = `${Math.max(260, 120 + rows.length * 17)}px`;
    return base(c, {
      legend: { show: false }, grid: { ...base(c).grid, top: 20 },
      xAxis: axis(c, "worse ← change, % → better", { type: "value" }), yAxis: axis(c, "", { type: "category", data: rows.map(label), splitLine: { show: false }, axisLabel: { color: c.soft, interval: 0, fontSize: 11 } }),
      tooltip: { ...base(c).tooltip, formatter: (p) => { const e = rows[p.value[0]]; return `<b>${text(label(e))}</b><br>${num(e.change * 100, 2)} % ${e.low == null ? "" : `(${num(e.low * 100, 2)} to ${num(e.high * 100, 2)})`}<br>${text(e.word)}`; } },
      series: [{
        name: "change", type: "custom", encode: { x: [1, 2, 3], y: 0 },
        data: rows.map((e, i) => [i, turn(e, e.change), turn(e, e.low) ?? turn(e, e.change), turn(e, e.high) ?? turn(e, e.change)]),
        renderItem: (params, api) => {
          const at = (v) => api.coord([v, api.value(0)]), point = at(api.value(1)), low = at(api.value(2)), high = at(api.value(3));
          const fill = colour[rows[api.value(0)].word] || c.faint;
          return { type: "group", children: [
            { type: "line", shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] }, style: { stroke: fill, lineWidth: 2 } },
            { type: "circle", shape: { cx: point[0], cy: point[1], r: 4.5 }, style: { fill } },
          ] };
        },
        markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: c.ink, type: "solid", width: 1 }, data: [{ xAxis: 0 }] },
      }],
    });
  }

  page.start({ effects, frontier, bylevel });
})();
