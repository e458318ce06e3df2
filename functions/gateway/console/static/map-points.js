// The points of a map, and their clusters: where they are, and which colours they have.
"use strict";

/**
 * @typedef {object} MapData The result of the tool `get_map`.
 * @property {{cluster_id: string, name: string, size: number, x: number, y: number}[]} clusters
 * @property {string[]} chunk_ids The passages. Each is a point on the map.
 * @property {number[]} x The coordinates of the points. Both axes have the same scale.
 * @property {number[]} y
 * @property {number[]} cluster The index of each point's cluster in `clusters`; -1 for none.
 */

/** The data of a map. Points and clusters are identified by their index. */
class MapPoints {
  static COLOURS = 10; // of clusters in the palette
  static NO_CLUSTER = MapPoints.COLOURS; // the palette's index for points without a cluster
  static GRID_CELLS = 128; // of the grid that finds points, along the longer side of the map

  chunkIds;
  x; // the points' coordinates
  y;
  clusterOf; // the cluster of each point; -1 for none
  clusters;
  bounds; // of points and clusters, in units of the coordinates
  clusterColours = []; // each cluster's colour, as an index in the palette
  colours; // each point's colour, as an index in the palette
  sortedByColour; // all points, sorted by colour, which draws faster
  #grid;

  /** @param {MapData} data */
  constructor(data) {
    this.chunkIds = data.chunk_ids;
    this.x = data.x;
    this.y = data.y;
    this.clusterOf = data.cluster;
    this.clusters = data.clusters;
    this.bounds = this.#measureBounds();
    this.#grid = this.#makeGrid();
    this.#chooseClusterColours();
    const colours = this.clusterOf.map((index) => this.clusterColours[index] ?? MapPoints.NO_CLUSTER);
    this.colours = Uint8Array.from(colours);
    this.sortedByColour = Uint32Array.from(colours.keys()).sort((a, b) => colours[a] - colours[b]);
  }

  /** Return the index of a cluster; -1 if it is not on the map. */
  findCluster(clusterId) {
    return this.clusters.findIndex((cluster) => cluster.cluster_id === clusterId);
  }

  /** Return the ids of a cluster's passages; none if the cluster is not on the map. */
  passagesOf(clusterId) {
    const cluster = this.findCluster(clusterId);
    if (cluster < 0) return []; // -1 would select the points without a cluster
    return this.chunkIds.filter((_, point) => this.clusterOf[point] === cluster);
  }

  /**
   * Return the points in all grid cells that a rectangle touches. Some may be outside the rectangle.
   *
   * @param {number} x The centre of the rectangle.
   * @param {number} y
   * @param {number} reachX Half its width.
   * @param {number} reachY Half its height.
   */
  around(x, y, reachX, reachY) {
    const { size, columns, rows, starts, points } = this.#grid;
    const cell = (value, low, count) =>
      Math.min(Math.max(Math.floor((value - low) / size), 0), count - 1);
    const firstColumn = cell(x - reachX, this.bounds.left, columns);
    const lastColumn = cell(x + reachX, this.bounds.left, columns);
    const lastRow = cell(y + reachY, this.bounds.top, rows);
    const around = [];
    for (let row = cell(y - reachY, this.bounds.top, rows); row <= lastRow; row++) {
      const start = starts[row * columns + firstColumn];
      // Not push(...): an engine limits how many arguments a call has.
      const inRow = points.subarray(start, starts[row * columns + lastColumn + 1]);
      for (const point of inRow) around.push(point);
    }
    return around;
  }

  #measureBounds() {
    const range = (axis) => {
      let [low, high] = [Infinity, -Infinity];
      const include = (value) => {
        low = Math.min(low, value);
        high = Math.max(high, value);
      };
      this[axis].forEach(include);
      this.clusters.forEach((cluster) => include(cluster[axis]));
      return low > high ? [0, 1] : [low, Math.max(high, low + 1)];
    };
    const [[left, right], [top, bottom]] = [range("x"), range("y")];
    return { left, top, right, bottom, width: right - left, height: bottom - top };
  }

  /** Sort the points by square cells: `points[starts[cell]]` is the first point of a cell. */
  #makeGrid() {
    const { left, top, width, height } = this.bounds;
    const size = Math.max(width, height) / MapPoints.GRID_CELLS;
    const columns = Math.floor(width / size) + 1;
    const rows = Math.floor(height / size) + 1;
    const cellOf = (point) =>
      Math.floor((this.y[point] - top) / size) * columns + Math.floor((this.x[point] - left) / size);
    const starts = new Uint32Array(columns * rows + 1);
    this.x.forEach((_, point) => starts[cellOf(point) + 1]++);
    for (let cell = 1; cell < starts.length; cell++) starts[cell] += starts[cell - 1];
    const free = starts.slice();
    const points = new Uint32Array(this.x.length);
    this.x.forEach((_, point) => (points[free[cellOf(point)]++] = point));
    return { size, columns, rows, starts, points };
  }

  /**
   * Give each cluster the colour of its id, so that it keeps it when clusters grow, move, come and go.
   * If that is in use, it gets the colour whose nearest use is farthest away.
   */
  #chooseClusterColours() {
    const { clusters } = this;
    const byId = [...clusters.keys()].sort((a, b) => (clusters[a].cluster_id < clusters[b].cluster_id ? -1 : 1));
    byId.forEach((index, rank) => {
      const distances = new Array(MapPoints.COLOURS).fill(Infinity);
      for (const other of byId.slice(0, rank)) {
        const colour = this.clusterColours[other];
        const [dx, dy] = [clusters[other].x - clusters[index].x, clusters[other].y - clusters[index].y];
        distances[colour] = Math.min(distances[colour], Math.hypot(dx, dy));
      }
      const letters = [...clusters[index].cluster_id];
      const own = letters.reduce((sum, letter) => sum + letter.codePointAt(0), 0) % MapPoints.COLOURS;
      this.clusterColours[index] =
        distances[own] === Infinity ? own : distances.indexOf(Math.max(...distances));
    });
  }
}
