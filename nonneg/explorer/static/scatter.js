// A scatter plot of many points in WebGL: pan, zoom, pick and lasso.
// Written by hand: embedding-atlas draws more, but needs 6.5 MB of scripts, WebAssembly and workers, which the page's
// content security policy forbids and which cannot be put into a file that opens without a server.

const VERTEX = `
attribute vec2 place; attribute vec4 colour; uniform vec2 scale, shift; uniform float size, front; varying vec4 ink;
void main() {
  bool isFront = colour.a > 0.5;
  gl_Position = (front > 0.5) == isFront ? vec4((place * 2.0 - 1.0) * scale + shift, 0, 1) : vec4(9, 9, 9, 1);
  gl_PointSize = isFront ? size : size * 0.75;
  ink = vec4(colour.rgb, isFront ? 0.9 : 0.35);
}`;
const FRAGMENT = `
precision mediump float; varying vec4 ink;
void main() {
  vec2 d = gl_PointCoord - 0.5;
  if (dot(d, d) > 0.25) discard;
  gl_FragColor = vec4(ink.rgb * ink.a, ink.a);
}`;
const CELLS = 128; // the plane is divided into cells, so that the nearest point is found without looking at all
const REACH = 12; // pixels from the pointer within which a point is picked
const MAX_ZOOM = 200;

function program(gl) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  gl.useProgram(made);
  return made;
}

/** Lists of points by cell. */
function grid(positions) {
  const cells = Array.from({ length: CELLS * CELLS }, () => []);
  const cell = (value) => Math.min(CELLS - 1, (value * CELLS) >> 16);
  for (let i = 0; i < positions.length / 2; i += 1) cells[cell(positions[2 * i + 1]) * CELLS + cell(positions[2 * i])].push(i);
  return cells;
}

function isInside(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i, i += 1) {
    const [[xi, yi], [xj, yj]] = [polygon[i], polygon[j]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

/**
 * Draw points on a canvas. `positions` holds x and y as 16-bit integers. `onPick` receives a point or -1 when the
 * pointer moves over it, `onClick` a point and the event, `onLasso` a list of points. Returns null without WebGL.
 */
export function scatter(canvas, overlay, positions, { onPick, onClick, onLasso }) {
  const gl = canvas.getContext("webgl", { antialias: false, alpha: true });
  if (!gl) return null;
  const made = program(gl);
  const place = (name) => gl.getUniformLocation(made, name);
  const uniforms = { scale: place("scale"), shift: place("shift"), size: place("size"), front: place("front") };
  const buffer = (name, width, kind) => {
    const bound = gl.createBuffer();
    const index = gl.getAttribLocation(made, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, bound);
    gl.enableVertexAttribArray(index);
    gl.vertexAttribPointer(index, width, kind, true, 0, 0);
    return bound;
  };
  buffer("place", 2, gl.UNSIGNED_SHORT);
  gl.bufferData(gl.ARRAY_BUFFER, positions, gl.STATIC_DRAW);
  const colours = buffer("colour", 4, gl.UNSIGNED_BYTE);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);

  const count = positions.length / 2;
  const cells = grid(positions);
  const view = { zoom: 0.95, x: 0, y: 0 }; // centre in the plane from -1 to 1
  let shown = () => true;
  let waiting = false;
  let lasso = null;
  let isLasso = false;

  function scales() {
    const side = Math.min(canvas.width, canvas.height);
    return [(view.zoom * side) / canvas.width, (view.zoom * side) / canvas.height];
  }

  function paint() {
    waiting = false;
    const [sx, sy] = scales();
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.scale, sx, sy);
    gl.uniform2f(uniforms.shift, -view.x * sx, -view.y * sy);
    const size = Math.max(2, Math.min(14, 320 / Math.sqrt(count))) * Math.min(3, Math.sqrt(view.zoom)) * devicePixelRatio;
    gl.uniform1f(uniforms.size, size);
    for (const front of [0, 1]) {
      gl.uniform1f(uniforms.front, front);
      gl.drawArrays(gl.POINTS, 0, count);
    }
    if (!canvas.dataset.painted) {
      gl.finish();
      canvas.dataset.painted = String(performance.now());
    }
  }

  function draw() {
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  }

  function fit() {
    const { width, height } = canvas.getBoundingClientRect();
    for (const each of [canvas, overlay]) {
      each.width = Math.max(1, Math.round(width * devicePixelRatio));
      each.height = Math.max(1, Math.round(height * devicePixelRatio));
    }
    draw();
  }

  /** Return the position in the plane, from 0 to 1, of a position on the screen. */
  function toPlane(clientX, clientY) {
    const box = canvas.getBoundingClientRect();
    const [sx, sy] = scales();
    const x = ((2 * (clientX - box.left)) / box.width - 1) / sx + view.x;
    const y = (1 - (2 * (clientY - box.top)) / box.height) / sy + view.y;
    return [(x + 1) / 2, (y + 1) / 2];
  }

  function nearest(clientX, clientY) {
    const [x, y] = toPlane(clientX, clientY);
    const box = canvas.getBoundingClientRect();
    const reach = REACH / (scales()[0] * box.width);
    const range = (v) => [Math.max(0, Math.floor((v - reach) * CELLS)), Math.min(CELLS - 1, Math.floor((v + reach) * CELLS))];
    const [[left, right], [low, high]] = [range(x), range(y)];
    let [best, distance] = [-1, reach * reach];
    for (let row = low; row <= high; row += 1) {
      for (let column = left; column <= right; column += 1) {
        for (const i of cells[row * CELLS + column]) {
          const [dx, dy] = [positions[2 * i] / 65535 - x, positions[2 * i + 1] / 65535 - y];
          if (dx * dx + dy * dy < distance && shown(i)) [best, distance] = [i, dx * dx + dy * dy];
        }
      }
    }
    return best;
  }

  function zoomAt(clientX, clientY, factor) {
    onPick(-1);
    const [x, y] = toPlane(clientX, clientY);
    view.zoom = Math.max(0.5, Math.min(MAX_ZOOM, view.zoom * factor));
    const [nowX, nowY] = toPlane(clientX, clientY);
    view.x += 2 * (x - nowX);
    view.y += 2 * (y - nowY);
    draw();
  }

  function move(dx, dy) {
    onPick(-1);
    const box = canvas.getBoundingClientRect();
    const [sx, sy] = scales();
    view.x -= (2 * dx) / (box.width * sx);
    view.y += (2 * dy) / (box.height * sy);
    draw();
  }

  function drawLasso() {
    const pen = overlay.getContext("2d");
    pen.clearRect(0, 0, overlay.width, overlay.height);
    if (!lasso) return;
    const box = overlay.getBoundingClientRect();
    pen.beginPath();
    for (const [x, y] of lasso) pen.lineTo((x - box.left) * devicePixelRatio, (y - box.top) * devicePixelRatio);
    pen.closePath();
    pen.fillStyle = "rgb(128 128 128 / 0.2)";
    pen.strokeStyle = getComputedStyle(canvas).color;
    pen.lineWidth = 2 * devicePixelRatio;
    pen.fill();
    pen.stroke();
  }

  function finishLasso() {
    const polygon = lasso.map(([x, y]) => toPlane(x, y));
    lasso = null;
    drawLasso();
    if (polygon.length < 3) return;
    const found = [];
    for (let i = 0; i < count; i += 1) {
      if (shown(i) && isInside(polygon, positions[2 * i] / 65535, positions[2 * i + 1] / 65535)) found.push(i);
    }
    onLasso(found);
  }

  const pointers = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    travelled = 0;
    if (!isLasso && !event.shiftKey) return;
    onPick(-1);
    lasso = [[event.clientX, event.clientY]];
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      onPick(nearest(event.clientX, event.clientY), event);
      return;
    }
    travelled += Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY);
    if (lasso) {
      lasso.push([event.clientX, event.clientY]);
      drawLasso();
    } else if (pointers.size === 2) {
      const other = [...pointers.values()].find((each) => each.pointerId !== event.pointerId);
      const apart = (a) => Math.max(1, Math.hypot(a.clientX - other.clientX, a.clientY - other.clientY));
      zoomAt((event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2, apart(event) / apart(before));
    } else move(event.clientX - before.clientX, event.clientY - before.clientY);
    pointers.set(event.pointerId, event);
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (lasso) finishLasso();
    else if (event.type === "pointerup" && travelled < 4) {
      const point = nearest(event.clientX, event.clientY);
      if (point >= 0) onClick(point, event);
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => onPick(-1));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(event.clientX, event.clientY, Math.exp(-event.deltaY * 0.002));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    const steps = {
      ArrowLeft: () => move(40, 0), ArrowRight: () => move(-40, 0), ArrowUp: () => move(0, 40), ArrowDown: () => move(0, -40),
      "+": () => zoomAt(x, y, 1.3), "-": () => zoomAt(x, y, 1 / 1.3), 0: () => reset(),
    };
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in steps)) return;
    event.preventDefault();
    steps[event.key]();
  });
  const observer = new ResizeObserver(fit);
  observer.observe(canvas);

  function reset() {
    Object.assign(view, { zoom: 0.95, x: 0, y: 0 });
    draw();
  }

  return {
    reset,
    zoom: (factor) => {
      const box = canvas.getBoundingClientRect();
      zoomAt(box.left + box.width / 2, box.top + box.height / 2, factor);
    },
    /** Set four bytes per point: red, green, blue, and 255 for the points in front. `isShown` says which can be picked. */
    colour(bytes, isShown) {
      shown = isShown;
      gl.bindBuffer(gl.ARRAY_BUFFER, colours);
      gl.bufferData(gl.ARRAY_BUFFER, bytes, gl.DYNAMIC_DRAW);
      draw();
    },
    setLasso(on) {
      isLasso = on;
      canvas.classList.toggle("lasso", on);
    },
  };
}
