/* The embedding: points that turn with the mouse or the arrow keys. */
if (Report) (() => {
  const { raw, components, trials, trialOf, state, colours } = Report;
  const canvas = document.getElementById("embedding");
  const tip = document.getElementById("tip");
  const start = raw.flat ? { yaw: 0, pitch: 0 } : { yaw: -0.65, pitch: 0.4 };
  const view = { ...start, zoom: 0 };  // 0: as large as fits
  const BUCKETS = 24;
  const n = raw.n;
  const sx = new Float32Array(n), sy = new Float32Array(n), depth = new Float32Array(n);
  const zero = new Float32Array(n);
  const order = new Uint32Array(n);

  const reach = (values) => values.reduce((most, v) => Math.max(most, Math.abs(v)), 0.02);
  const spread = (values) => Math.sqrt(values.reduce((sum, v) => sum + v * v, 1e-12) / n);
  const equal = components.map((values) => {
    const scale = 0.3 / spread(values);
    return values.map((v) => v * scale);
  });
  const column = (i) => (state.whiten ? equal : components)[state.axes[i]] || zero;

  /* From the box to the screen: turned around the upright axis, then tipped towards the reader. */
  function camera(w, h) {
    const [cy, sny, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch),
      Math.sin(view.pitch)];
    const size = 0.43 * Math.min(w * 0.75, h) * (view.zoom || 1) / reach0;
    return (x, up, away) => {
      const side = x * cy + away * sny, far = -x * sny + away * cy;
      const back = far * cp - up * sp, tall = far * sp + up * cp;
      const scale = size / (1 + 0.18 * back / reach0);
      return [w / 2 + side * scale, h / 2 - tall * scale, back];
    };
  }
  let reach0 = 1;

  function draw() {
    const [g, w, h] = Report.fit(canvas);
    if (!w) return;
    const look = Report.theme();
    const [x, up, away] = [column(0), column(1), column(2)];
    const sides = [reach(x), reach(up), raw.flat ? 0 : reach(away)];
    reach0 = Math.max(...sides);
    const place = camera(w, h);
    let near = Infinity, far = -Infinity;
    for (let i = 0; i < n; i++) {
      const [a, b, c] = place(x[i], up[i], away[i]);
      sx[i] = a; sy[i] = b; depth[i] = c;
      if (c < near) near = c;
      if (c > far) far = c;
    }
    if (!view.zoom) {
      let fill = 0.3;
      for (let i = 0; i < n; i++) {
        fill = Math.max(fill, Math.abs(2 * sx[i] / w - 1), Math.abs(2 * sy[i] / h - 1));
      }
      view.zoom = 0.86 / fill;
      draw();
      return;
    }
    axes(g, place, sides, look);
    paint(g, look, near, far);
    nameAxes(g, look);
    cursor(g, look);
    key(look);
  }

  /* Far points first. All of one colour and depth are one path, which is what makes it quick. */
  function paint(g, look, near, far) {
    const swatch = Report.swatches(look), index = colours[state.colour].index;
    const K = swatch.length, span = Math.max(far - near, 1e-9);
    const slot = (i) => {
      const bucket = Math.min(BUCKETS - 1, Math.floor(BUCKETS * (far - depth[i]) / span));
      return bucket * K + (index[i] < 0 ? K - 1 : index[i]);
    };
    const counts = new Uint32Array(BUCKETS * K + 1);
    for (let i = 0; i < n; i++) counts[slot(i) + 1]++;
    for (let s = 0; s < BUCKETS * K; s++) counts[s + 1] += counts[s];
    const next = counts.slice();
    for (let i = 0; i < n; i++) order[next[slot(i)]++] = i;
    const size = Math.max(1.3, Math.min(4, 260 / Math.sqrt(n))) * Math.sqrt(view.zoom);
    g.lineCap = "round";
    for (let s = 0; s < BUCKETS * K; s++) {
      if (counts[s] === counts[s + 1]) continue;
      const nearness = Math.floor(s / K) / (BUCKETS - 1);
      const [mine, others] = [new Path2D(), new Path2D()];
      const r = size * (0.65 + 0.5 * nearness);
      for (let j = counts[s]; j < counts[s + 1]; j++) {
        const i = order[j];
        const chosen = trialOf[i] === state.trial;
        const path = state.trial < 0 || chosen ? mine : others;
        if (state.lines || chosen) {
          if (i + 1 < n && trialOf[i + 1] === trialOf[i]) {
            path.moveTo(sx[i], sy[i]);
            path.lineTo(sx[i + 1], sy[i + 1]);
          }
        } else {
          path.rect(sx[i] - r / 2, sy[i] - r / 2, r, r);
        }
      }
      const colour = swatch[s % K];
      g.strokeStyle = g.fillStyle = colour;
      for (const [path, faint] of [[others, true], [mine, false]]) {
        const alone = !faint && state.trial >= 0;
        g.globalAlpha = faint ? 0.13 : alone ? 0.6 + 0.4 * nearness : 0.45 + 0.5 * nearness;
        g.lineWidth = alone ? 2 + 1.2 * nearness : 0.6 + 0.6 * nearness;
        if (state.lines || alone) g.stroke(path); else g.fill(path);
      }
    }
    g.globalAlpha = 1;
  }

  const labels = [];
  function nameAxes(g, look) {
    g.textAlign = "center";
    g.lineWidth = 3;
    g.lineJoin = "round";
    g.strokeStyle = look.paper;
    g.fillStyle = look.ink;
    for (const [text, x, y] of labels.splice(0)) {
      const half = g.measureText(text).width / 2 + 4; // a narrow screen cuts no name off
      const inside = Math.max(half, Math.min(g.canvas.clientWidth - half, x));
      g.strokeText(text, inside, y);
      g.fillText(text, inside, y);
    }
  }

  /* Three lines through the middle, each as long as the data reach, named at its end. */
  function axes(g, place, sides, look) {
    g.font = "12px system-ui, sans-serif";
    g.textAlign = "center";
    g.lineWidth = 1;
    sides.forEach((side, i) => {
      const name = raw.names[state.axes[i]];
      if (!name || !side) return;
      const at = (v) => place(...[0, 1, 2].map((k) => (k === i ? v : 0)));
      const [from, to, end] = [at(-1.05 * side), at(1.05 * side), at(1.05 * side + 0.07 * reach0)];
      g.strokeStyle = look.muted;
      g.globalAlpha = 0.5;
      g.beginPath();
      g.moveTo(from[0], from[1]);
      g.lineTo(to[0], to[1]);
      g.stroke();
      g.globalAlpha = 1;
      labels.push([name, end[0], end[1] + 4]);
    });
  }

  /* Where the reader is: a ring, and the way that led there. */
  function cursor(g, look) {
    const i = state.cursor;
    if (i < 0) return;
    const from = Math.max(trials[trialOf[i]].first, i - 60);
    g.lineWidth = 1.6;
    g.strokeStyle = look.ink;
    for (let j = from; j < i; j++) {
      g.globalAlpha = 0.15 + 0.85 * (j - from) / (i - from);
      g.beginPath();
      g.moveTo(sx[j], sy[j]);
      g.lineTo(sx[j + 1], sy[j + 1]);
      g.stroke();
    }
    g.globalAlpha = 1;
    g.beginPath();
    g.arc(sx[i], sy[i], 6, 0, 7);
    g.lineWidth = 2.2;
    g.fillStyle = look.paper;
    g.fill();
    g.stroke();
  }

  /* What the colours mean, below the picture. */
  let keyed = "";
  function key(look) {
    const now = `${state.colour} ${look.dark}`;
    if (now === keyed) return;
    keyed = now;
    const place = document.getElementById("key"), colour = colours[state.colour];
    const swatch = Report.swatches(look);
    const words = (text) => Object.assign(document.createElement("span"), { textContent: text });
    place.replaceChildren(words(colour.name));
    if (colour.kinds && colour.kinds.length <= 24) {
      colour.kinds.forEach((kind, k) => {
        const dot = document.createElement("i");
        dot.style.background = swatch[k];
        const item = words(kind);
        item.prepend(dot);
        place.append(item);
      });
      return;
    }
    const bar = document.createElement("canvas");
    bar.width = 192;
    bar.height = 1;
    const g = bar.getContext("2d"), shown = swatch.slice(0, -1);
    shown.forEach((c, k) => {
      g.fillStyle = c;
      g.fillRect(192 * k / shown.length, 0, 192 / shown.length + 1, 1);
    });
    const [low, high] = colour.kinds ? [colour.kinds[0], colour.kinds.at(-1)]
      : [Report.round(colour.low), `${Report.round(colour.high)} ${colour.unit}`];
    place.append(words(low), bar, words(high));
  }

  // -- mouse and keys ----------------------------------------------------------------------------

  function turn(yaw, pitch) {
    view.yaw += yaw;
    view.pitch = Math.max(-1.5, Math.min(1.5, view.pitch + pitch));
    Report.change({});
  }
  function zoom(by) {
    view.zoom = Math.max(0.3, Math.min(12, view.zoom * by));
    Report.change({});
  }
  function under(event) {
    const { left, top } = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    let best = -1, least = 14 * 14;
    for (let i = 0; i < n; i++) {
      if (state.trial >= 0 && trialOf[i] !== state.trial) continue;
      const away = (sx[i] - x) ** 2 + (sy[i] - y) ** 2;
      if (away < least || (away === least && depth[i] < depth[best])) [best, least] = [i, away];
    }
    return best;
  }
  function say(i) {
    const here = document.getElementById("here");
    tip.hidden = i < 0;
    if (i < 0) return;
    const lines = Report.describe(i);
    here.textContent = lines.join(" · ");
    tip.textContent = lines.join("\n");
    const right = sx[i] > canvas.clientWidth / 2;
    tip.style.left = right ? "" : `${sx[i] + 14}px`;
    tip.style.right = right ? `${canvas.clientWidth - sx[i] + 14}px` : "";
    tip.style.top = `${Math.max(4, Math.min(canvas.clientHeight - 60, sy[i] - 12))}px`;
  }

  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("held");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      turn(-0.008 * (event.clientX - held[0]), 0.008 * (event.clientY - held[1]));
      held = [event.clientX, event.clientY];
      return;
    }
    Report.change({ cursor: under(event) });
  });
  const release = () => {
    held = null;
    canvas.classList.remove("held");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => held || Report.change({ cursor: -1 }));
  canvas.addEventListener("wheel", (event) => {
    // The page scrolls as usual until the picture has been clicked.
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-0.0015 * event.deltaY));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const by = event.shiftKey ? 0.4 : 0.1;
    const keys = {
      ArrowLeft: () => turn(by, 0), ArrowRight: () => turn(-by, 0),
      ArrowUp: () => turn(0, -by), ArrowDown: () => turn(0, by),
      "+": () => zoom(1.2), "=": () => zoom(1.2), "-": () => zoom(1 / 1.2),
      0: () => { Object.assign(view, start, { zoom: 0 }); Report.change({}); },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  Report.draws(draw);
  Report.draws(() => say(state.cursor));
})();
