// Shows the LLM page inside Locust's own when its tab is chosen, and Locust's messages with their line breaks.
"use strict";
(() => {
  const { page, key } = window.tokenswarm;
  const frame = document.createElement("iframe");
  frame.title = "LLM metrics";
  frame.id = "tokenswarm-llm";
  frame.style.cssText = "display:none;width:100%;min-height:70vh;border:0";
  frame.addEventListener("load", () => {
    const body = frame.contentDocument && frame.contentDocument.body;
    if (!body) return;
    const fit = () => { frame.style.height = `${frame.contentDocument.documentElement.scrollHeight}px`; };
    new ResizeObserver(fit).observe(body);
    fit();
  });

  const style = document.createElement("style");
  style.textContent = ".MuiAlert-message{white-space:pre-line}";
  document.head.append(style);

  let opened = false;
  function follow() {
    const main = document.querySelector("main");
    // React makes it anew, or adds the tabs behind the frame
    if (main && main.lastElementChild !== frame) main.append(frame);
    const chosen = new URLSearchParams(location.search).get("tab") === key && !!main;
    if (chosen && !frame.src) frame.src = `${page}?embedded=1`;
    frame.style.display = chosen ? "block" : "none";
    // the scenario's fields are what this form is about: do not hide them in a closed fold
    const fold = document.querySelector('form [aria-expanded="false"]');
    const folds = [...document.querySelectorAll("form .MuiAccordionSummary-root")];
    const ours = folds.find((each) => each.textContent.includes("Custom parameters"));
    if (!opened && fold && ours) {
      opened = true;
      (ours.matches("[aria-expanded]") ? ours : ours.querySelector("[aria-expanded]")).click();
    }
    if (!folds.length) opened = false;
  }
  setInterval(follow, 200);
})();
