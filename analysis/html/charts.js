// What all pages share: colours from the style sheet, axes, drawing, switches, saving. No network.
"use strict";
const page = (() => {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const charts = new Map(), shown = {};
  let makers = {}, opened = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = () => Object.fromEntries(["ink", "soft", "faint", "line", "card", "ttft", "tpot", "end", "good", "warn", "bad", "accent"].map((n) => [n, css("--" + n)]));
  const t = (s) => (data.words && data.words[s]) || s;
  const ms = (v) => v == null ? "–" : v >= 1000 ? Math.round(v).toLocaleString("en") : v >= 10 ? v.toFixed(1) : v.toFixed(2);
  const num = (v, digits = 0) => v == null ? "–" : v.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
  const text = (s) => String(s).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches && !document.documentElement.classList.contains("printing");

  // levels are ordered, so their colours are a ramp and not a set of hues
  function ramp(index, count) {
    const at = count < 2 ? 0.5 : index / (count - 1);
    return `hsl(${195 + 120 * at} ${62 + 10 * at}% ${dark() ? 68 - 6 * at : 47 - 8 * at}%)`;
  }

  function base(c, extra) {
    return {
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: css("--font"), color: c.soft, fontSize: 12 },
      grid: { left: 12, right: 28, top: 58, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
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

  // the axis reaches up to the limit unless that would flatten the values
  function topOf(values, limit) {
    const most = Math.max(0, ...values.filter((v) => v != null));
    const top = 1.08 * (limit != null && limit < 3 * most ? Math.max(most, limit) : most);
    if (!(top > 0)) return null;
    const step = 10 ** Math.floor(Math.log10(top));
    return step * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((n) => n * step >= top);
  }

  // what a screen reader hears instead of the picture
  function describe(id) {
    const title = document.querySelector(`#fig-${id} h3`).textContent, note = document.querySelector(`#fig-${id} figcaption`).textContent;
    return `${title}. ${note} ${t("The numbers are in the tables of this page.")}`;
  }

  function option(id) {
    const c = colours(), drawn = makers[id](c);
    const empty = !drawn.series.some((s) => s.data && s.data.some((d) => d != null));
    if (empty) drawn.graphic = { type: "text", left: "center", top: "middle", style: { text: t("No data"), fill: c.faint, font: `14px ${css("--font")}` } };
    drawn.aria = { enabled: true, label: { description: describe(id) } };
    return drawn;
  }

  function draw(id) {
    const element = document.getElementById(id);
    if (!element) return;
    if (!charts.has(id)) charts.set(id, echarts.init(element, null, { renderer: "svg" }));
    charts.get(id).setOption(option(id), true);
  }
  const drawAll = () => Object.keys(makers).forEach(draw);

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

  function start(charts_by_id) {
    makers = charts_by_id;
    document.querySelectorAll(".switch").forEach((group) => {
      shown[group.dataset.for] = group.querySelector("button").dataset.key;
      group.addEventListener("click", (event) => {
        const key = event.target.dataset.key;
        if (!key) return;
        shown[group.dataset.for] = key;
        group.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.key === key)));
        draw(group.dataset.for);
      });
    });
    document.querySelectorAll("select[data-for]").forEach((choice) => choice.addEventListener("change", () => choice.dataset.for.split(" ").forEach(draw)));
    document.querySelectorAll("[data-save]").forEach((b) => b.addEventListener("click", () => save(b.dataset.for, b.dataset.save)));
    new ResizeObserver(() => charts.forEach((chart) => chart.resize())).observe(document.querySelector("main"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    // paper is white and can not be clicked: light colours, everything opened
    const redraw = (on) => () => {
      document.documentElement.classList.toggle("printing", on);
      if (on) opened = [...document.querySelectorAll("details:not([open])")];
      opened.forEach((details) => { details.open = on; });
      charts.forEach((chart) => chart.resize());
      drawAll();
    };
    addEventListener("beforeprint", redraw(true));
    addEventListener("afterprint", redraw(false));
    drawAll();
    document.documentElement.dataset.drawn = String(charts.size);
  }

  return { data, shown, css, dark, t, ms, num, text, ramp, base, axis, yAxis, sloMarks, topOf, start };
})();
