//! A picture of pixels with well-set letters.
//!
//! Plotters' own bitmaps leave out the room before a letter and set lines of
//! text higher than its SVG does; here both formats look alike.

use std::convert::Infallible;

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};
use plotters_backend::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontStyle, FontTransform,
};

use super::font;

/// Rows of red, green and blue bytes.
pub struct Picture {
    size: (u32, u32),
    pixels: Vec<u8>,
}

impl Picture {
    pub fn new(size: (u32, u32)) -> Self {
        Self { size, pixels: vec![255; size.0 as usize * size.1 as usize * 3] }
    }

    /// The picture with each `samples` squared pixels made one: their mean.
    pub fn shrink(&self, samples: u32) -> Vec<u8> {
        let (width, height, n) = ((self.size.0 / samples) as usize, (self.size.1 / samples) as usize, samples as usize);
        let stride = self.size.0 as usize * 3;
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width * 3 {
                let (column, channel) = (x / 3, x % 3);
                let square = (0..n * n).map(|i| (y * n + i / n) * stride + (column * n + i % n) * 3 + channel);
                let sum: u32 = square.map(|index| u32::from(self.pixels[index])).sum();
                pixels.push((sum / (samples * samples)) as u8);
            }
        }
        pixels
    }

    fn blend(&mut self, (x, y): BackendCoord, color: BackendColor, share: f64) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.0 || y >= self.size.1 {
            return;
        }
        let start = (y as usize * self.size.0 as usize + x as usize) * 3;
        let (r, g, b) = color.rgb;
        for (byte, part) in self.pixels[start..start + 3].iter_mut().zip([r, g, b]) {
            *byte = (f64::from(*byte) + (f64::from(part) - f64::from(*byte)) * share).round() as u8;
        }
    }
}

impl DrawingBackend for &mut Picture {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> Result<(), DrawingErrorKind<Infallible>> {
        self.blend(at, color, color.alpha);
        Ok(())
    }

    /// Text whose middle height is at `at`: the one vertical anchor that plots use.
    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let font = font::face(matches!(style.style(), FontStyle::Bold));
        // The size of a style is that of a line; letters are as high as an SVG's would be.
        let em = (style.size() / font::LINE_OF_EM) as f32;
        let (glyphs, width) = lay_out(font, em, text);
        let across = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -width / 2.0,
            HPos::Right => -width,
        };
        let down = em * font::HALF_OF_LOWER_CASE;
        for mut glyph in glyphs {
            glyph.position.x += across;
            glyph.position.y += down;
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let bounds = outline.px_bounds();
            outline.draw(|x, y, coverage| {
                let (x, y) = (bounds.min.x as i32 + x as i32, bounds.min.y as i32 + y as i32);
                let turned = if matches!(style.transform(), FontTransform::Rotate270) { (y, -x) } else { (x, y) };
                self.blend((at.0 + turned.0, at.1 + turned.1), style.color(), f64::from(coverage));
            });
        }
        Ok(())
    }
}

/// Letters side by side from 0, and where they end.
fn lay_out(font: &FontRef<'_>, em: f32, text: &str) -> (Vec<Glyph>, f32) {
    let scale = PxScale::from(em * font.height_unscaled() / font.units_per_em().unwrap_or(1000.0));
    let scaled = font.as_scaled(scale);
    let mut x = 0.0;
    let mut before = None;
    let mut glyphs = Vec::with_capacity(text.len());
    for letter in text.chars() {
        let id = scaled.glyph_id(letter);
        if let Some(before) = before {
            x += scaled.kern(before, id);
        }
        glyphs.push(id.with_scale_and_position(scale, point(x, 0.0)));
        x += scaled.h_advance(id);
        before = Some(id);
    }
    (glyphs, x)
}

/// Width of `text` with letters of `em` pixels.
pub fn text_width(text: &str, em: f64, bold: bool) -> f64 {
    f64::from(lay_out(font::face(bold), em as f32, text).1)
}
