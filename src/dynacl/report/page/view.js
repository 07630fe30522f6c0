/* What the embedding and the timeline share: the data, what is chosen, colours. */
"use strict";
const Report = (() => {
  const raw = JSON.parse(document.getElementById("points").textContent);
  if (!raw) return null;

  const unpack = (text, Kind) =>
    new Kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const components = raw.components.map((text) => {
    const whole = unpack(text, Int16Array);
    return Float32Array.from(whole, (v) => v / 32000);
  });
  const step = unpack(raw.step, Int32Array);
  const colours = raw.colours.map((c) => ({
    ...c,
    index: unpack(c.index, Int16Array),
    values: c.values && unpack(c.values, Float32Array),
  }));
  const trials = [];
  const trialOf = new Uint16Array(raw.n);
  let first = 0;
  raw.trials.forEach((trial, i) => {
    trials.push({ name: trial.name, first, count: trial.count });
    trialOf.fill(i, first, first + trial.count);
    first += trial.count;
  });

  // trial: −1 for all. cursor: a point, −1 for none.
  const state = {
    // Of many trials, one is easier to follow; the others stay as a cloud around it.
    colour: 0, trial: trials.length > 8 ? 0 : -1, cursor: -1, axes: [0, 1, 2], lines: raw.smooth,
    whiten: false,
  };
  const listeners = [];
  let waiting = false;
  function change(part) {
    Object.assign(state, part);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      listeners.forEach((draw) => draw());
    });
  }

  /* Colours of the page as it looks now, and those of the chosen quantity or category. The last
     swatch is for what is not known. */
  function theme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    const dark = read("scheme") === "dark";
    return { ink: read("ink"), muted: read("muted"), line: read("line"), paper: read("paper"), dark };
  }
  function swatches(look) {
    const colour = colours[state.colour];
    if (colour.kinds) return [...colour.swatches, look.muted];
    // The dark end of the ramp is lost on a dark page, the light one on a light page.
    const [low, high] = look.dark ? [0.3, 1] : [0, 0.93];
    const at = (i) => Math.round((low + (high - low) * (i / (raw.ramp.length - 1)))
      * (raw.ramp.length - 1));
    return [...raw.ramp.map((_, i) => raw.ramp[at(i)]), look.muted];
  }

  const round = (v) => Number(v.toPrecision(4)).toString();
  function time(i) {
    return raw.seconds ? `${round(step[i] * raw.seconds)} s` : `step ${step[i]}`;
  }
  function describe(i) {
    const lines = [`trial ${trials[trialOf[i]].name}, ${time(i)}`];
    for (const colour of colours) {
      if (colour.name === "time" || colour.name === "trial") continue;
      const known = colour.index[i] >= 0;
      const value = colour.kinds ? colour.kinds[colour.index[i]] : known && round(colour.values[i]);
      const said = value === `mode ${colour.index[i]}` ? String(colour.index[i]) : value;
      lines.push(`${colour.name}: ${known ? said : "not known"}`);
    }
    return lines;
  }

  /* A canvas as sharp as the screen; gives its size in the page's pixels. */
  function fit(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: w, clientHeight: h } = canvas;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, w, h);
    return [context, w, h];
  }

  return {
    raw, components, step, colours, trials, trialOf, state,
    change, theme, swatches, describe, fit, round,
    draws: (draw) => listeners.push(draw),
    redraw: () => listeners.forEach((draw) => draw()),
  };
})();
