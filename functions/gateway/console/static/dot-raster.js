// The picture on which the map draws its points.
"use strict";

/**
 * A picture on which dots are stamped, pixel by pixel. Tens of thousands of dots take milliseconds;
 * drawing them as shapes or images on a canvas takes ten times as long.
 */
class DotRaster {
  #image;
  #pixels; // as 0xAABBGGRR, since all browsers run on little-endian machines
  #stride;
  #margin;

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
   * Make a stamp for each colour. The rim around the dot sets it apart from dots that it overlaps.
   * Radius and rim are in pixels.
   */
  makeStamps(radius, rim, colours, rimColour) {
    const half = Math.ceil(radius + rim);
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

  /** Stamp with the centre at a pixel. All of the stamp must be within the picture or its margin. */
  stamp({ offsets, kept, added }, x, y) {
    const pixels = this.#pixels;
    const centre = (y + this.#margin) * this.#stride + x + this.#margin;
    for (let part = 0; part < offsets.length; part++) {
      const pixel = centre + offsets[part];
      const share = kept[part];
      if (share === 0) {
        pixels[pixel] = added[part];
      } else {
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
