// The picture on which the map draws its points.
"use strict";

/**
 * A picture on which dots are stamped, pixel by pixel. Tens of thousands of dots take a few
 * milliseconds. Drawing them on the canvas as shapes or images takes ten times as long.
 */
class DotRaster {
  #image;
  #pixels; // the image's pixels as 0xAABBGGRR, because all browsers run on little-endian machines
  #stride; // pixels in a row
  #margin; // pixels on each side

  /**
   * Make a picture of this size in pixels, with a margin on each side that is not shown, so that dots
   * at the edge need no clipping.
   */
  constructor(width, height, margin) {
    this.#margin = margin;
    this.#stride = width + 2 * margin;
    this.#image = new ImageData(this.#stride, height + 2 * margin);
    this.#pixels = new Uint32Array(this.#image.data.buffer);
  }

  /** Convert a CSS colour in any notation to red, green and blue, each from 0 to 255. */
  static parseColour(colour) {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
  }

  /** Encode an opaque colour as one pixel. */
  static #pack([red, green, blue]) {
    return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
  }

  clear(colour) {
    this.#pixels.fill(DotRaster.#pack(colour));
  }

  /**
   * Make a stamp for each colour: a dot with a rim, which sets it apart from dots that it overlaps.
   *
   * @param {number} radius The radius of the dot, in pixels.
   * @param {number} rim The width of the rim, in pixels.
   * @param {number[][]} colours Colours as `parseColour` returns them.
   * @param {number[]} rimColour
   */
  makeStamps(radius, rim, colours, rimColour) {
    const half = Math.ceil(radius + rim);
    // The share of a pixel that a disc covers, approximately, from the distance of their centres.
    const cover = (distance, size) => Math.min(Math.max(size + 0.5 - distance, 0), 1);
    const parts = [];
    for (let y = -half; y <= half; y++) {
      for (let x = -half; x <= half; x++) {
        const distance = Math.hypot(x, y);
        const [dot, total] = [cover(distance, radius), cover(distance, radius + rim)];
        if (total > 0) parts.push({ offset: y * this.#stride + x, dot, total });
      }
    }
    const offsets = Int32Array.from(parts, ({ offset }) => offset);
    // How much of the pixel below remains visible, in 256ths.
    const kept = Uint32Array.from(parts, ({ total }) => Math.round((1 - total) * 256));
    return colours.map((colour) => {
      const added = Uint32Array.from(parts, ({ dot, total }) => {
        const mix = (channel, index) => channel * dot + rimColour[index] * (total - dot);
        return DotRaster.#pack(colour.map(mix));
      });
      return { offsets, kept, added };
    });
  }

  /** Stamp a dot around a pixel. All of it must be within the picture or its margin. */
  stamp({ offsets, kept, added }, x, y) {
    const pixels = this.#pixels;
    const centre = (y + this.#margin) * this.#stride + x + this.#margin;
    for (let part = 0; part < offsets.length; part++) {
      const pixel = centre + offsets[part];
      const share = kept[part];
      if (share === 0) {
        pixels[pixel] = added[part];
      } else {
        // Red and blue are scaled in one multiplication, with the zero byte of green between them.
        const before = pixels[pixel];
        const redBlue = (Math.imul(before & 0xff00ff, share) >>> 8) & 0xff00ff;
        const green = (Math.imul(before & 0xff00, share) >>> 8) & 0xff00;
        pixels[pixel] = added[part] + redBlue + green;
      }
    }
  }

  copyTo(context) {
    context.putImageData(this.#image, -this.#margin, -this.#margin);
  }
}
