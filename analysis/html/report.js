// The charts of a run's report.
"use strict";
(() => {
  const { data, shown, css, t, ms, num, text, ramp, base, axis, yAxis, sloMarks, topOf } = page;
  const NAMES = { ttft_ms: "TTFT", tpot_ms: "TPOT", itl_ms: data.chunked ? t("inter-chunk latency") : "ITL", e2e_ms: "E2E" };
  const limitOf = (metric) => data.slo && data.slo.limits[metric];
  const chosen = () => document.getElementById("chosen-level").value;

  function frontier(c) {
    const metric = shown.frontier, tail = data.slo ? data.slo.tail : "p95";
    const limit = limitOf(metric);
    const line = (part, colour, width) => ({
      name: `${NAMES[metric]} ${part}`, type: "line", symbol: "circle", symbolSize: 8, color: colour, lineStyle: { width }, 
      data: data.levels.filter((l) => l[metric][part] != null && l.output_tok_s != null).map((l) => ({ value: [l.output_tok_s, l[metric][part]], level: l })),
      label: { show: part === tail, position: "top", color: c.ink, formatter: (p) => p.data.level.label, fontWeight: 600 },
    });
    return base(c, {
      xAxis: axis(c, t("output tokens/s"), { type: "value", min: 0 }), yAxis: yAxis(c, "ms", { type: "value", min: 0, max: topOf(data.levels.map((l) => l[metric][tail]), limit) }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `<b>${t(data.load)} ${text(p.data.level.label)}</b><br>${text(p.seriesName)} ${ms(p.value[1])} ms<br>${num(p.value[0])} ${t("output tokens/s")}<br>${t("SLO met")} ${p.data.level.slo_attainment == null ? "–" : num(p.data.level.slo_attainment * 100, 1) + " %"}` },
      series: [{ ...line(tail, c.accent, 2.5), ...sloMarks(c, limit) }, line("p50", c.faint, 1.5)],
    });
  }
  function interactivity(c) {
    const points = data.levels.filter((l) => l.tok_s_per_user != null && l.output_tok_s != null);
    return base(c, {
      legend: { show: false }, xAxis: axis(c, t("tokens/s per user"), { type: "value", min: 0 }), yAxis: yAxis(c, t("output tokens/s"), { type: "value", min: 0 }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `<b>${t(data.load)} ${text(p.data.level.label)}</b><br>${num(p.value[1])} ${t("output tokens/s")}<br>${num(p.value[0], 1)} ${t("tokens/s per user")}` },
      series: [{
        name: "levels", type: "line", symbol: "circle", color: c.accent, symbolSize: 10, lineStyle: { width: 2.5 },
        data: points.map((l) => ({ value: [l.tok_s_per_user, l.output_tok_s], level: l, itemStyle: data.slo ? { color: l.meets_slo ? c.good : c.bad } : {} })),
        label: { show: true, position: "right", color: c.ink, fontWeight: 600, formatter: (p) => p.data.level.label },
      }],
    });
  }

  function byLevel(metric) {
    return (c) => {
      const main = c[metric.slice(0, 4)] || c.accent, limit = limitOf(metric);
      const styles = { p99: ["dotted", 0.55], p95: ["solid", 1], p50: ["solid", 0.55], mean: ["dashed", 0.8] };
      return base(c, {
        xAxis: axis(c, t(data.load), { type: "category", data: data.levels.map((l) => l.label), boundaryGap: false }), yAxis: yAxis(c, "ms", { type: "value", min: 0, max: topOf(data.levels.map((l) => l[metric].p99), limit) }),
        tooltip: { ...base(c).tooltip, trigger: "axis", valueFormatter: (v) => ms(v) + " ms" },
        series: [whiskers(c, metric, main), ...Object.entries(styles).map(([part, [type, opacity]], i) => ({
          name: part, type: "line", symbol: "circle", color: main, symbolSize: part === "p95" ? 7 : 4, lineStyle: { type, opacity, width: part === "p95" ? 2.5 : 1.8 }, itemStyle: { opacity },
          data: data.levels.map((l) => l[metric][part]), ...(i === 0 ? sloMarks(c, limit) : {}),
        }))],
      });
    };
  }

  // 95 % intervals of the mean and the p95, where the level is long enough for them
  function whiskers(c, metric, color) {
    const short = metric.replace("_ms", "");
    const data_ = data.levels.flatMap((l, x) => ["mean", "p95"].map((part) => l.intervals[`${short}_${part}_ms`]).filter(Boolean).map(([low, high]) => [x, low, high]));
    return {
      name: t("95 % interval"), type: "custom", color, silent: true, z: 1, tooltip: { show: false }, encode: { x: 0, y: [1, 2] }, data: data_,
      renderItem: (params, api) => {
        const low = api.coord([api.value(0), api.value(1)]), high = api.coord([api.value(0), api.value(2)]);
        const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: color, lineWidth: 1.5, opacity: 0.7 } });
        return { type: "group", children: [line(low[0], low[1], high[0], high[1]), line(low[0] - 4, low[1], low[0] + 4, low[1]), line(high[0] - 4, high[1], high[0] + 4, high[1])] };
      },
    };
  }

  function ecdf(c) {
    const metric = shown.ecdf, limit = limitOf(metric);
    const marks = limit == null ? {} : { markLine: { silent: true, symbol: "none", lineStyle: { color: c.good, type: "dashed" }, label: { formatter: `SLO ${ms(limit)} ms`, color: c.good, position: "end", rotate: 0 }, data: [{ xAxis: limit }] } };
    return base(c, {
      xAxis: axis(c, `${NAMES[metric]}, ms`, { type: "log", min: "dataMin", max: "dataMax", axisLabel: { color: c.soft, hideOverlap: true, formatter: (v) => (v >= 10 ? Math.round(v).toLocaleString("en") : +v.toPrecision(2)) } }),
      yAxis: yAxis(c, t("share of values"), { type: "value", min: 0, max: 1, axisLabel: { color: c.soft, formatter: (v) => v * 100 + " %" } }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `<b>${t(data.load)} ${text(p.seriesName)}</b><br>${num(p.value[1] * 100, 1)} % ≤ ${ms(p.value[0])} ms` },
      series: data.levels.map((l, i) => ({
        name: l.label, type: "line", step: "end", showSymbol: false, symbolSize: 5, color: ramp(i, data.levels.length), lineStyle: { width: 2 },
        data: (data.ecdf[l.level] || {})[metric] || [], triggerLineEvent: true, ...(i === 0 ? marks : {}),
      })),
    });
  }

  function outcomes(c) {
    const kinds = [["success", c.good], ["failure", c.bad], ["empty", c.warn], ["cut_off", c.faint]];
    return base(c, {
      xAxis: axis(c, t(data.load), { type: "category", data: data.levels.map((l) => l.label) }), yAxis: yAxis(c, t("requests"), { type: "value", minInterval: 1 }),
      tooltip: { ...base(c).tooltip, trigger: "axis", axisPointer: { type: "shadow" } },
      series: kinds.map(([name, color]) => ({ name: t(name.replace("_", " ")), type: "bar", stack: "all", barMaxWidth: 46, color, itemStyle: { opacity: 0.82 }, data: data.levels.map((l) => l[name]) })),
    });
  }

  function drift(c) {
    const level = [...data.windows].reverse().sort((a, b) => b.minutes.length - a.minutes.length)[0], key = shown.drift;
    const lines = key === "output_tok_s" ? [[t("output tokens/s"), level.output_tok_s, c.accent]] : [["p95", level[key + "_p95"], c[key]], ["p50", level[key + "_p50"], c.faint]];
    return base(c, {
      xAxis: axis(c, t("minutes since the measure phase began"), { type: "value" }), yAxis: yAxis(c, key === "output_tok_s" ? t("tokens/s") : "ms", { type: "value", min: 0 }),
      tooltip: { ...base(c).tooltip, trigger: "axis" },
      series: lines.map(([name, values, color]) => ({ name, type: "line", symbol: "circle", color, symbolSize: 5, data: values.map((v, i) => [level.minutes[i], v]) })),
    });
  }

  // tokens per second and requests in flight over the whole run, phases shaded, the steady part underlined
  function flow(c) {
    const phases = { ramp: c.faint, warmup: c.warn, measure: c.good, tail: c.end };
    const areas = data.flow.phases.map(([name, from, to, label]) => [{ xAxis: from, itemStyle: { color: phases[name], opacity: name === "measure" ? 0.1 : 0.07 }, name: name === "measure" ? label : "", label: { color: c.soft, position: "insideTop" } }, { xAxis: to }]);
    const steady = data.flow.steady.map(([from, to]) => [{ coord: [from, 0] }, { coord: [to, 0] }]);
    return base(c, {
      xAxis: axis(c, t("seconds since the run began"), { type: "value", min: 0, max: data.flow.end_s }),
      yAxis: [yAxis(c, t("tokens/s"), { type: "value", min: 0 }), yAxis(c, t("in flight"), { type: "value", min: 0, splitLine: { show: false }, nameTextStyle: { color: c.faint, align: "right" } })],
      tooltip: { ...base(c).tooltip, trigger: "axis", valueFormatter: (v) => num(v, 1) },
      series: [
        { name: t("output tokens/s"), type: "line", step: "end", showSymbol: false, color: c.accent, lineStyle: { width: 1.5 }, data: data.flow.tokens, markArea: { silent: true, data: areas }, markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: c.good, width: 4, type: "solid" }, data: steady } },
        { name: t("requests in flight"), type: "line", step: "end", showSymbol: false, yAxisIndex: 1, color: c.tpot, lineStyle: { width: 1.5 }, data: data.flow.in_flight },
      ],
    });
  }

  // gaps between token events: when (x), how long (y, logarithmic), how many (colour)
  function heatmap(c) {
    const map = data.heatmaps[chosen()];
    if (!map) return base(c, { series: [] });
    const most = Math.max(1, ...map.cells.map((cell) => cell[2]));
    const strength = (n) => Math.log(1 + n) / Math.log(1 + most); // a single stall must be seen beside a million good gaps
    return base(c, {
      legend: { show: false }, grid: { ...base(c).grid, top: 30 },
      xAxis: axis(c, t("seconds since the measure phase began"), { type: "category", data: map.times, splitLine: { show: false }, axisLabel: { color: c.soft, hideOverlap: true } }),
      yAxis: yAxis(c, t("gap, ms"), { type: "category", data: map.gaps, splitLine: { show: false } }),
      tooltip: { ...base(c).tooltip, formatter: (p) => `${text(map.times[p.value[0]])} s<br>${num(p.data.count)} × ${text(map.gaps[p.value[1]])} ms` },
      visualMap: { show: false, min: 0, max: 1, dimension: 2, inRange: { color: page.dark() ? ["#1b2f57", "#3f6fd8", "#f5a04c", "#ffe3b3"] : ["#e8effc", "#6c9bf5", "#d9730d", "#7a2e00"] } },
      series: [{ type: "heatmap", progressive: 0, data: map.cells.map(([x, y, n]) => ({ value: [x, y, strength(n)], count: n })), itemStyle: { borderWidth: 0 } }],
    });
  }

  function timeline(c) {
    const rows = [...(data.timelines[chosen()] || [])].reverse();
    const names = rows.map((r) => t(r.name));
    const bar = (name, color, from, to) => ({
      name, type: "custom", color, itemStyle: { color }, encode: { x: [1, 2], y: 0 },
      data: rows.map((r, i) => [i, from(r), to(r)]).filter((d) => d[1] != null && d[2] != null && d[2] > d[1]),
      renderItem: (params, api) => {
        const start = api.coord([api.value(1), api.value(0)]), end = api.coord([api.value(2), api.value(0)]), height = 26;
        return { type: "rect", shape: { x: start[0], y: start[1] - height / 2, width: Math.max(end[0] - start[0], 1), height, r: 3 }, style: { fill: color, opacity: 0.85 } };
      },
    });
    const ticks = {
      name: t("token events"), type: "custom", color: c.ink, silent: true, encode: { x: 1, y: 0 }, data: rows.flatMap((r, i) => r.arrivals_ms.map((a) => [i, a])),
      renderItem: (params, api) => {
        const p = api.coord([api.value(1), api.value(0)]);
        return { type: "rect", shape: { x: p[0], y: p[1] + 16, width: 1, height: 8 }, style: { fill: c.ink, opacity: 0.55 } };
      },
    };
    const labels = {
      name: "instants", type: "custom", silent: true, encode: { x: 1, y: 0 }, tooltip: { show: false }, data: rows.length ? [[t("t0 sent"), 0], [t("t1 first token"), rows.at(-1).first_ms], [t("t2 last token"), rows.at(-1).last_ms]].map(([n, v]) => [rows.length - 1, v, n]) : [],
      renderItem: (params, api) => {
        const p = api.coord([api.value(1), api.value(0)]), last = params.dataIndex === 2;
        return { type: "group", children: [
          { type: "line", shape: { x1: p[0], y1: p[1] - 26, x2: p[0], y2: p[1] + 13 }, style: { stroke: c.ink, lineWidth: 1.5 } },
          { type: "text", style: { text: `${api.value(2)} ${params.dataIndex ? ms(api.value(1)) + " ms" : ""}`, x: p[0] + (last ? 0 : 0), y: p[1] - (params.dataIndex === 1 ? 46 : 32), fill: c.ink, font: `600 11px ${css("--font")}`, align: last ? "right" : "left", verticalAlign: "middle" } },
        ] };
      },
    };
    return base(c, {
      grid: { ...base(c).grid, top: 74 }, legend: { ...base(c).legend, data: ["queue + prefill", "decode", "tail to end mark", "token events"].map(t) },
      xAxis: axis(c, t("ms since sent"), { type: "value", min: 0 }), yAxis: axis(c, "", { type: "category", data: names, splitLine: { show: false } }),
      tooltip: { ...base(c).tooltip, formatter: (p) => { const r = rows[p.value[0]]; return `<b>${text(t(r.name))}</b> ${text(r.request_id)}<br>TTFT ${ms(r.first_ms)} ms, ${t("decode")} ${ms(r.last_ms - r.first_ms)} ms, E2E ${ms(r.e2e_ms)} ms<br>${num(r.input_tokens)} → ${num(r.output_tokens)} ${t("tokens")}`; } },
      series: [bar(t("queue + prefill"), c.ttft, () => 0, (r) => r.first_ms), bar(t("decode"), c.tpot, (r) => r.first_ms, (r) => r.last_ms), bar(t("tail to end mark"), c.end, (r) => r.last_ms, (r) => r.e2e_ms), ticks, labels],
    });
  }

  page.start({ frontier, interactivity, ttft: byLevel("ttft_ms"), tpot: byLevel("tpot_ms"), ecdf, outcomes, flow, drift, heatmap, timeline });
})();
