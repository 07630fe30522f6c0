/* The timeline: components of one trial as lines, and all trials as rows, in the same colours. */
if (Report) (() => {
  const { raw, components, step, trials, trialOf, state, colours } = Report;
  const canvas = document.getElementById("timeline");
  const [LEFT, RIGHT, TOP, LINES, GAP, BELOW] = [44, 12, 10, 92, 12, 26];
  const ROW = trials.length === 1 ? 22 : Math.max(4, Math.min(18, 260 / trials.length));
  const RASTER = ROW * trials.length;
  canvas.style.height = `${TOP + LINES + GAP + RASTER + BELOW}px`;
  const last = trials.reduce((most, t) => Math.max(most, step[t.first + t.count - 1]), 1);
  const least = trials.reduce((most, t) => Math.min(most, step[t.first]), Infinity);

  const across = (w) => (s) => LEFT + (w - LEFT - RIGHT) * (s - least) / Math.max(1, last - least);
  const shown = () => {
    if (state.trial >= 0) return state.trial;
    return state.cursor >= 0 ? trialOf[state.cursor] : 0;
  };

  function draw() {
    const [g, w] = Report.fit(canvas);
    if (!w) return;
    const look = Report.theme(), x = across(w);
    lines(g, look, x);
    raster(g, look, x);
    axis(g, look, x, w);
    if (state.cursor >= 0) {
      const at = x(step[state.cursor]);
      g.strokeStyle = look.ink;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(at, TOP);
      g.lineTo(at, TOP + LINES + GAP + RASTER);
      g.stroke();
    }
  }

  function lines(g, look, x) {
    const { first, count, name } = trials[shown()];
    const dashes = [[], [5, 3], [1.5, 3]];
    let most = 1e-9;
    state.axes.forEach((axis) => {
      const values = components[axis];
      for (let i = first; values && i < first + count; i++) {
        most = Math.max(most, Math.abs(values[i]));
      }
    });
    state.axes.forEach((axis, k) => {
      const values = components[axis];
      if (!values) return;
      g.beginPath();
      for (let i = first; i < first + count; i++) {
        g.lineTo(x(step[i]), TOP + LINES / 2 * (1 - 0.92 * values[i] / most));
      }
      g.setLineDash(dashes[k]);
      g.strokeStyle = k ? look.muted : look.ink;
      g.lineWidth = k ? 1 : 1.3;
      g.stroke();
    });
    g.setLineDash([]);
    g.fillStyle = look.muted;
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "right";
    g.fillText(`trial ${name}`, LEFT - 6, TOP + LINES / 2 + 4);
  }

  /* One row per trial: an image of one pixel per point, stretched. */
  function raster(g, look, x) {
    const swatch = Report.swatches(look), index = colours[state.colour].index;
    const top = TOP + LINES + GAP;
    trials.forEach(({ first, count }, row) => {
      const high = Math.max(1, ROW - (ROW > 6 ? 1 : 0));
      let from = first;
      for (let i = first + 1; i <= first + count; i++) {
        if (i < first + count && index[i] === index[from]) continue;
        const end = x(step[Math.min(i, first + count - 1)]);
        const [a, b] = [Math.floor(x(step[from])), Math.ceil(end)];
        g.fillStyle = swatch[index[from] < 0 ? swatch.length - 1 : index[from]];
        g.fillRect(a, top + row * ROW, Math.max(1, b - a), high);
        from = i;
      }
      if (row === shown()) {
        g.globalAlpha = 1;
        g.strokeStyle = look.ink;
        g.lineWidth = 1.2;
        g.strokeRect(LEFT - 1, top + row * ROW - 0.5, x(step[first + count - 1]) - LEFT + 2, high + 1);
      }
    });
    g.globalAlpha = 1;
    g.fillStyle = look.muted;
    const every = Math.ceil(14 / ROW);
    trials.forEach(({ name }, row) => {
      if (row % every) return;
      g.fillText(name, LEFT - 6, top + (row + 0.5) * ROW + 4);
    });
  }

  function axis(g, look, x, w) {
    const unit = raw.seconds || 1;
    const rough = (last - least) * unit / Math.max(2, Math.floor(w / 110));
    const size = 10 ** Math.floor(Math.log10(rough));
    const every = [1, 2, 5, 10].map((m) => m * size).find((v) => v >= rough);
    g.textAlign = "center";
    for (let t = Math.ceil(least * unit / every) * every; t <= last * unit; t += every) {
      g.fillText(Report.round(t), x(t / unit), TOP + LINES + GAP + RASTER + 16);
    }
    g.textAlign = "right";
    g.fillText(raw.seconds ? "s" : "step", LEFT - 12, TOP + LINES + GAP + RASTER + 16);
  }

  // -- mouse and keys ----------------------------------------------------------------------------

  /* The point of a trial that is nearest to a step. */
  function nearest(row, wanted) {
    const { first, count } = trials[row];
    let [low, high] = [first, first + count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (step[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low;
  }
  function under(event) {
    const { left, top, width } = canvas.getBoundingClientRect();
    const down = event.clientY - top - TOP - LINES - GAP;
    const row = down < 0 ? shown() : Math.min(trials.length - 1, Math.floor(down / ROW));
    const share = (event.clientX - left - LEFT) / (width - LEFT - RIGHT);
    return nearest(row, least + Math.max(0, Math.min(1, share)) * (last - least));
  }
  const choice = document.getElementById("trial");
  function choose(trial) {
    choice.value = String(trial);
    Report.change({ trial });
  }
  canvas.addEventListener("pointermove", (event) => Report.change({ cursor: under(event) }));
  canvas.addEventListener("pointerleave", () => Report.change({ cursor: -1 }));
  canvas.addEventListener("click", (event) => {
    const row = trialOf[under(event)];
    choose(state.trial === row ? -1 : row);
  });
  function go(by) {
    const row = shown(), { first, count } = trials[row];
    const now = state.cursor < 0 || trialOf[state.cursor] !== row ? first : state.cursor + by;
    Report.change({ cursor: Math.max(first, Math.min(first + count - 1, now)) });
  }
  function other(by) {
    const row = Math.max(0, Math.min(trials.length - 1, shown() + by));
    choose(row);
    const at = state.cursor < 0 ? step[trials[row].first] : step[state.cursor];
    Report.change({ cursor: nearest(row, at) });
  }
  canvas.addEventListener("keydown", (event) => {
    const by = event.shiftKey ? 10 : 1;
    const keys = {
      ArrowLeft: () => go(-by), ArrowRight: () => go(by),
      ArrowUp: () => other(-1), ArrowDown: () => other(1),
      Escape: () => { choose(-1); Report.change({ cursor: -1 }); },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // -- controls ----------------------------------------------------------------------------------

  const words = (name, text, more) =>
    Object.assign(document.createElement(name), { textContent: text }, more);
  const group = document.getElementById("colour");
  colours.forEach((colour, i) => {
    const label = words("label", colour.name, { title: colour.name });
    const input = Object.assign(document.createElement("input"),
      { type: "radio", name: "colour", value: String(i), checked: i === state.colour });
    input.addEventListener("change", () => Report.change({ colour: i }));
    label.prepend(input);
    group.append(label);
  });
  choice.append(words("option", "all", { value: "-1" }),
    ...trials.map(({ name }, i) => words("option", name, { value: String(i) })));
  choice.value = String(state.trial);
  choice.addEventListener("change", () => Report.change({ trial: Number(choice.value) }));
  document.querySelectorAll("select[data-axis]").forEach((select) => {
    const k = Number(select.dataset.axis);
    const short = raw.names.map((name) => name.split(" (")[0]);
    select.append(...short.map((name, i) => words("option", name, { value: String(i) })));
    select.value = String(state.axes[k]);
    select.disabled = raw.names.length <= k;
    select.addEventListener("change", () => {
      const axes = state.axes.slice();
      axes[k] = Number(select.value);
      Report.change({ axes });
    });
  });
  const toggle = (id, on, act) => {
    const button = document.getElementById(id);
    button.setAttribute("aria-pressed", String(on));
    button.addEventListener("click", () => {
      const now = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(now));
      act(now);
    });
  };
  toggle("whiten", state.whiten, (whiten) => Report.change({ whiten }));
  toggle("lines", state.lines, (lines) => Report.change({ lines }));
  let playing = 0;
  toggle("play", false, (on) => {
    clearInterval(playing);
    if (!on) return;
    playing = setInterval(() => {
      const { first, count } = trials[shown()];
      if (state.cursor === first + count - 1) Report.change({ cursor: first }); else go(1);
    }, 40);
  });

  Report.draws(draw);
  const again = () => Report.change({});
  new ResizeObserver(again).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  // Before printing there is no next frame to wait for.
  matchMedia("print").addEventListener("change", () => Report.redraw());
  window.addEventListener("beforeprint", () => Report.redraw());
  window.addEventListener("afterprint", () => Report.redraw());
  again();
})();
