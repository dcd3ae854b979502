"use strict";
(() => {
  const root = document.documentElement;
  root.dataset.errors = "";
  addEventListener("error", (event) => { root.dataset.errors += event.message + "; "; });
  const data = JSON.parse(document.getElementById("data").textContent);
  const redraw = [];
  let color = () => "";
  const LANES = ["--aggressor", "--aggressor-2", "--aggressor-3", "--aggressor-4"];

  function theme() {
    const style = getComputedStyle(root);
    const known = {};
    color = (name) => (known[name] ??= style.getPropertyValue(name).trim());
  }

  // A context whose unit is the CSS pixel, cleared.
  function context(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.font = "12px system-ui, sans-serif";
    return { c, width, height };
  }

  // Round numbers between two values.
  function ticks(low, high, about) {
    const raw = (high - low) / Math.max(1, about);
    if (!(raw > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const found = [];
    for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-6; t += step) found.push(Math.abs(t) < step * 1e-6 ? 0 : t);
    return found;
  }

  const TIME_STEPS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];
  function timeTicks(fromNs, low, high, about) {
    const step = TIME_STEPS.find((s) => s >= (high - low) / about) ?? 86400;
    const base = fromNs / 1e9;
    const found = [];
    for (let t = Math.ceil((base + low) / step) * step; t - base <= high; t += step) found.push(t - base);
    return { step, found };
  }
  function clock(fromNs, seconds, step) {
    const text = new Date(fromNs / 1e6 + seconds * 1e3).toISOString();
    return text.slice(11, step < 1 ? 23 : 19);
  }
  const percent = (value) => (value > 0 ? "+" : "") + (value * 100).toFixed(Math.abs(value) < 0.0995 ? 1 : 0) + " %";

  // Means of values over pixels when there are more values than pixels.
  function sampled(values, first, last, width) {
    const points = [];
    const per = Math.max(1, Math.floor((last - first) / Math.max(1, width)));
    for (let at = first; at < last; at += per) {
      let sum = 0, count = 0, most = -Infinity, least = Infinity;
      for (let i = at; i < Math.min(last, at + per); i++) {
        const v = values[i];
        if (v === null || v === undefined) continue;
        sum += v; count++; most = Math.max(most, v); least = Math.min(least, v);
      }
      points.push({ at: at + per / 2, width: per, mean: count ? sum / count : null, most, least });
    }
    return points;
  }

  // Columns end on whole device pixels: neighbours neither overlap nor leave a seam.
  function column(c, left, right, top, height) {
    const ratio = window.devicePixelRatio || 1, snap = (v) => Math.round(v * ratio) / ratio;
    c.fillRect(snap(left), top, snap(right) - snap(left), height);
  }

  function quantile(values, share) {
    const known = values.filter((v) => v !== null).sort((a, b) => a - b);
    return known.length ? known[Math.min(known.length - 1, Math.floor(share * known.length))] : 0;
  }

  function course(figure, picture) {
    const canvas = figure.querySelector("canvas.course"), tip = figure.querySelector(".tip");
    const columns = picture.cost.length, waits = picture.signal === "run-queue wait";
    const cost = picture.cost.map((v) => (v === null ? null : waits ? v : v - 1));
    let view = [0, columns], hover = null, drag = null;
    const LEFT = 58, RIGHT = 8, LANE = 62, GAP = 12, AXIS = 24;
    const seconds = (column) => column * picture.column_ns / 1e9;
    canvas.style.height = 240 + picture.lanes.length * (LANE + GAP) + "px";

    function draw() {
      const { c, width, height } = context(canvas);
      const lanesTop = height - AXIS - picture.lanes.length * (LANE + GAP);
      const plot = { left: LEFT, top: 8, width: width - LEFT - RIGHT, height: lanesTop - 8 };
      const x = (column) => plot.left + (column - view[0]) / (view[1] - view[0]) * plot.width;
      const first = Math.max(0, Math.floor(view[0])), last = Math.min(columns, Math.ceil(view[1]));
      const seen = cost.slice(first, last);
      let low = Math.min(0, quantile(seen, 0.01)), high = Math.max(waits ? 0.02 : 0.05, quantile(seen, 0.99));
      const room = (high - low) * 0.12;
      high += room; if (low < 0) low -= room;
      const y = (v) => plot.top + (1 - (Math.min(high, Math.max(low, v)) - low) / (high - low)) * plot.height;

      c.save();
      c.beginPath(); c.rect(plot.left, 0, plot.width, height - AXIS); c.clip();
      const lead = picture.lanes[0];
      if (lead) {
        const half = 0.5 * Math.max(...lead.cores, 0.01);
        c.fillStyle = color("--band");
        for (const p of sampled(lead.cores, first, last, plot.width)) {
          if (p.mean >= half) column(c, x(p.at - p.width / 2), x(p.at + p.width / 2), plot.top, height - AXIS - plot.top);
        }
      }
      c.fillStyle = color("--faint");
      picture.lost.forEach((lost, at) => { if (lost) c.fillRect(x(at), plot.top, Math.max(1, x(at + 1) - x(at)), 4); });
      c.restore();

      c.textAlign = "right"; c.textBaseline = "middle";
      for (const v of ticks(low, high, 5)) {
        c.strokeStyle = v === 0 ? color("--faint") : color("--line"); c.lineWidth = 1;
        c.beginPath(); c.moveTo(plot.left, Math.round(y(v)) + 0.5); c.lineTo(width - RIGHT, Math.round(y(v)) + 0.5); c.stroke();
        c.fillStyle = color("--soft");
        c.fillText(waits ? (v * 100).toFixed(0) + " %" : percent(v), plot.left - 8, y(v));
      }

      c.save();
      c.beginPath(); c.rect(plot.left, 0, plot.width, height - AXIS); c.clip();
      const points = sampled(cost, first, last, plot.width);
      c.fillStyle = color("--victim"); c.globalAlpha = 0.22;
      for (const p of points) if (p.mean !== null) c.fillRect(x(p.at - p.width / 2), y(p.most), Math.max(1, x(p.at + p.width / 2) - x(p.at - p.width / 2)), Math.max(1, y(p.least) - y(p.most)));
      c.globalAlpha = 1; c.strokeStyle = color("--victim"); c.lineWidth = 1.7; c.lineJoin = "round";
      c.beginPath();
      let pen = false;
      for (const p of points) {
        if (p.mean === null) { pen = false; continue; }
        if (pen) c.lineTo(x(p.at), y(p.mean)); else c.moveTo(x(p.at), y(p.mean));
        pen = true;
      }
      c.stroke();
      picture.lanes.forEach((lane, number) => {
        const top = lanesTop + GAP + number * (LANE + GAP), most = Math.max(...lane.cores, 0.05);
        c.fillStyle = color("--line"); c.fillRect(plot.left, top + LANE, plot.width, 1);
        c.fillStyle = color(LANES[number]); c.globalAlpha = 0.85;
        for (const p of sampled(lane.cores, first, last, plot.width)) {
          const tall = (p.mean ?? 0) / most * (LANE - 16);
          column(c, x(p.at - p.width / 2), x(p.at + p.width / 2), top + LANE - tall, tall);
        }
        c.globalAlpha = 1; c.textAlign = "left"; c.fillStyle = color(LANES[number]);
        c.fillText(lane.name, plot.left + 2, top + 5);
      });
      c.restore();
      c.textAlign = "right"; c.fillStyle = color("--soft");
      picture.lanes.forEach((lane, number) => {
        const top = lanesTop + GAP + number * (LANE + GAP);
        c.fillText(Math.max(...lane.cores, 0.05).toFixed(1), plot.left - 8, top + 16);
        c.fillText("cores", plot.left - 8, top + 32);
      });

      const { step, found } = timeTicks(picture.from_ns, seconds(view[0]), seconds(view[1]), Math.max(2, plot.width / 110));
      c.textAlign = "center"; c.fillStyle = color("--soft");
      for (const t of found) {
        const at = x(t * 1e9 / picture.column_ns);
        if (at < plot.left + 24 || at > width - 30) continue;
        c.fillText(clock(picture.from_ns, t, step), at, height - 9);
      }
      if (drag) {
        c.fillStyle = color("--victim"); c.globalAlpha = 0.15;
        c.fillRect(Math.min(drag.from, drag.to), plot.top, Math.abs(drag.to - drag.from), height - AXIS - plot.top);
        c.globalAlpha = 1;
      }
      if (hover !== null && !drag) {
        c.fillStyle = color("--ink"); c.globalAlpha = 0.5; c.fillRect(hover, plot.top, 1, height - AXIS - plot.top); c.globalAlpha = 1;
      }
      return { plot, column: (px) => view[0] + (px - plot.left) / plot.width * (view[1] - view[0]) };
    }

    function show(from, to) {
      const least = Math.min(columns, 12);
      let size = Math.min(columns, Math.max(least, to - from));
      from = Math.max(0, Math.min(columns - size, from));
      view = [from, from + size];
      draw();
    }
    function zoom(factor, middle) {
      const at = middle ?? (view[0] + view[1]) / 2, size = (view[1] - view[0]) * factor;
      const share = (at - view[0]) / (view[1] - view[0]);
      show(at - share * size, at + (1 - share) * size);
    }
    function say(px) {
      const { plot, column } = draw();
      const at = Math.floor(column(px));
      if (px < plot.left || at < 0 || at >= columns) { tip.hidden = true; return; }
      const lines = [clock(picture.from_ns, seconds(at), 0.1)];
      const v = cost[at];
      lines.push(v === null ? "no work finished" : waits ? "waited " + (v * 100).toFixed(1) + " %" : "cost " + percent(v));
      for (const lane of picture.lanes) lines.push(lane.name + ": " + (lane.cores[at] ?? 0).toFixed(2) + " cores");
      tip.replaceChildren(...lines.map((text) => { const line = document.createElement("div"); line.textContent = text; return line; }));
      tip.hidden = false;
      const right = px > plot.left + plot.width / 2;
      tip.style.left = right ? "auto" : px + 14 + "px";
      tip.style.right = right ? canvas.clientWidth - px + 14 + "px" : "auto";
    }
    canvas.addEventListener("pointerdown", (e) => { drag = { from: e.offsetX, to: e.offsetX }; tip.hidden = true; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", (e) => {
      hover = e.offsetX;
      if (drag) { drag.to = e.offsetX; draw(); } else say(e.offsetX);
    });
    canvas.addEventListener("pointerup", () => {
      const span = drag; drag = null;
      const { column } = draw();
      if (span && Math.abs(span.to - span.from) > 6) {
        const [a, b] = [column(span.from), column(span.to)].sort((p, q) => p - q);
        show(a, b);
      }
    });
    canvas.addEventListener("pointerleave", () => { hover = null; tip.hidden = true; draw(); });
    canvas.addEventListener("dblclick", () => show(0, columns));
    canvas.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      zoom(e.deltaY > 0 ? 1.25 : 0.8, draw().column(e.offsetX));
    }, { passive: false });
    canvas.addEventListener("keydown", (e) => {
      const step = (view[1] - view[0]) / 6;
      const does = { ArrowLeft: () => show(view[0] - step, view[1] - step), ArrowRight: () => show(view[0] + step, view[1] + step),
        "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), 0: () => show(0, columns) }[e.key];
      if (does) { e.preventDefault(); does(); }
    });
    for (const button of figure.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => ({ in: () => zoom(0.5), out: () => zoom(2), all: () => show(0, columns) })[button.dataset.zoom]());
    }
    redraw.push(draw);
  }

  function spread(canvas, shown) {
    redraw.push(() => {
      const { c, width, height } = context(canvas);
      const bottom = height - 24, most = Math.max(...shown.on, ...shown.off);
      const x = (v) => (v - shown.low) / (shown.high - shown.low) * width;
      const y = (share) => bottom - share / most * (bottom - 26);
      const each = width / shown.on.length;
      for (const [shares, name] of [[shown.off, "--victim"], [shown.on, "--aggressor"]]) {
        c.beginPath(); c.moveTo(0, bottom);
        shares.forEach((share, at) => { c.lineTo(at * each, y(share)); c.lineTo((at + 1) * each, y(share)); });
        c.lineTo(width, bottom); c.closePath();
        c.fillStyle = color(name); c.globalAlpha = 0.26; c.fill();
        c.globalAlpha = 1; c.strokeStyle = color(name); c.lineWidth = 1.5; c.stroke();
      }
      c.fillStyle = color("--line"); c.fillRect(0, bottom, width, 1);
      c.fillStyle = color("--soft"); c.textAlign = "center"; c.textBaseline = "middle";
      for (const v of ticks(shown.low - 1, shown.high - 1, width / 90)) {
        if (x(v + 1) > 18 && x(v + 1) < width - 18) c.fillText(percent(v), x(v + 1), height - 10);
      }
      const marks = [[1, "--victim", "without"], [shown.on_median, "--aggressor", "with"]];
      for (const [v, name, word] of marks) {
        c.strokeStyle = color(name); c.lineWidth = 2; c.setLineDash([4, 3]);
        c.beginPath(); c.moveTo(x(v), 20); c.lineTo(x(v), bottom); c.stroke(); c.setLineDash([]);
        c.fillStyle = color(name);
        const left = (v === 1) === (shown.on_median >= 1);
        c.textAlign = left ? "right" : "left";
        const room = c.measureText(word).width;
        c.fillText(word, left ? Math.max(room, x(v) - 5) : Math.min(width - room, x(v) + 5), 12);
      }
    });
  }

  function near(canvas, shown) {
    redraw.push(() => {
      const { c, width, height } = context(canvas);
      const LEFT = 52, axis = 24, lanes = shown.cores.length, gap = 8;
      const tall = (height - axis - gap * (lanes - 1)) / lanes, slots = shown.cores[0].victim.length;
      const each = (width - LEFT) / slots;
      shown.cores.forEach((lane, number) => {
        const top = number * (tall + gap);
        c.fillStyle = color("--line"); c.globalAlpha = 0.45; c.fillRect(LEFT, top, width - LEFT, tall); c.globalAlpha = 1;
        for (let at = 0; at < slots; at++) {
          let from = top + tall;
          for (const [shares, name] of [[lane.victim, "--victim"], [lane.aggressor, "--aggressor"], [lane.other, "--other"]]) {
            const high = shares[at] / 100 * tall;
            if (high > 0) { c.fillStyle = color(name); column(c, LEFT + at * each, LEFT + (at + 1) * each, from - high, high); from -= high; }
          }
        }
        c.fillStyle = color("--soft"); c.textAlign = "left"; c.textBaseline = "middle";
        c.fillText("core " + lane.core, 0, top + tall / 2);
      });
      c.textAlign = "center";
      const length = slots * shown.slot_ns / 1e6;
      for (const ms of ticks(0, length, 5)) {
        const at = LEFT + ms / length * (width - LEFT);
        if (at < width - 24) c.fillText(Math.round(ms) + " ms", Math.max(at, LEFT + 14), height - 9);
      }
    });
  }

  function iterations(canvas, shown) {
    redraw.push(() => {
      const { c, width, height } = context(canvas);
      const LEFT = 58, bottom = height - 24, course = shown.course;
      if (!course.length) return;
      const from = course[0][0], to = course[course.length - 1][0];
      const most = Math.max(...course.map((p) => p[1])) * 1.08;
      const x = (ns) => LEFT + 6 + (ns - from) / Math.max(1, to - from) * (width - LEFT - 14);
      const y = (s) => bottom - s / most * (bottom - 8);
      c.textAlign = "right"; c.textBaseline = "middle";
      for (const v of ticks(0, most, 4)) {
        c.fillStyle = color("--line"); c.fillRect(LEFT, Math.round(y(v)), width - LEFT, 1);
        c.fillStyle = color("--soft"); c.fillText(v >= 1 ? v.toFixed(1) + " s" : Math.round(v * 1e3) + " ms", LEFT - 8, y(v));
      }
      c.strokeStyle = color("--faint"); c.setLineDash([5, 4]); c.lineWidth = 1.2;
      c.beginPath(); c.moveTo(LEFT, y(shown.median)); c.lineTo(width, y(shown.median)); c.stroke(); c.setLineDash([]);
      const thick = Math.max(1.5, Math.min(9, (width - LEFT) / course.length * 0.62));
      for (const [ns, s] of course) {
        const slow = s > shown.slow_from;
        c.fillStyle = color(slow ? "--aggressor" : "--victim"); c.globalAlpha = slow ? 1 : 0.55;
        c.fillRect(x(ns) - thick / 2, y(s), thick, bottom - y(s));
      }
      c.globalAlpha = 1; c.textAlign = "center"; c.fillStyle = color("--soft");
      const { step, found } = timeTicks(from, 0, (to - from) / 1e9, Math.max(2, width / 120));
      for (const t of found) { const at = x(from + t * 1e9); if (at < width - 30) c.fillText(clock(from, t, step), Math.max(at, LEFT + 26), height - 9); }
    });
  }

  for (const figure of document.querySelectorAll("figure[data-picture]")) {
    const picture = data.pictures[figure.dataset.picture];
    course(figure, picture);
    for (const canvas of figure.querySelectorAll("canvas.spread")) spread(canvas, picture.distributions[canvas.dataset.spread]);
    for (const canvas of figure.querySelectorAll("canvas.near")) near(canvas, picture.close_up);
  }
  for (const canvas of document.querySelectorAll("canvas.iterations")) iterations(canvas, data.training[canvas.dataset.training]);

  const all = () => { theme(); for (const draw of redraw) draw(); root.dataset.charts = redraw.length; };
  let pending = 0;
  addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(all); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  addEventListener("beforeprint", all);
  all();
})();
