//! Strokes, shapes and letters on either kind of picture.
//!
//! Positions and sizes are CSS pixels here; `scale` turns them into the
//! picture's own, so that a finer picture is the same picture.

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontStyle, FontTransform, IntoTextStyle, RGBColor, ShapeStyle};

use super::{font, picture};

pub type Point = (f64, f64);
pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

pub struct Canvas<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    scale: f64,
}

/// How a text looks and where its point is.
#[derive(Clone, Copy)]
pub struct Lettering {
    pub size: f64,
    pub bold: bool,
    pub color: RGBColor,
    pub across: HPos,
    /// Turned to run upwards.
    pub upwards: bool,
}

/// Markers of the series in turn, so that they differ without colour too.
#[derive(Clone, Copy)]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl<'a, DB: DrawingBackend> Canvas<'a, DB> {
    pub fn new(area: &'a DrawingArea<DB, Shift>, scale: f64) -> Self {
        Self { area, scale }
    }

    /// Width and height in CSS pixels.
    pub fn size(&self) -> Point {
        let (width, height) = self.area.dim_in_pixel();
        (f64::from(width) / self.scale, f64::from(height) / self.scale)
    }

    pub fn fill(&self, color: RGBColor) -> Drawn<DB> {
        self.area.fill(&color)
    }

    pub fn line(&self, points: &[Point], color: RGBColor, width: f64) -> Drawn<DB> {
        let points: Vec<_> = points.iter().map(|point| self.pixel(*point)).collect();
        self.area.draw(&PathElement::new(points, self.stroke(color, width)))
    }

    /// A line of dashes, which go on round the corners.
    pub fn dashed_line(&self, points: &[Point], color: RGBColor, width: f64) -> Drawn<DB> {
        const DASH: [f64; 2] = [7.0, 4.5];
        let (mut left, mut part) = (DASH[0], 0);
        for pair in points.windows(2) {
            let (mut from, to) = (pair[0], pair[1]);
            loop {
                let length = (to.0 - from.0).hypot(to.1 - from.1);
                let share = if length > left { left / length } else { 1.0 };
                let next = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
                if part == 0 {
                    self.line(&[from, next], color, width)?;
                }
                if length <= left {
                    left -= length;
                    break;
                }
                part = 1 - part;
                (left, from) = (DASH[part], next);
            }
        }
        Ok(())
    }

    pub fn rectangle(&self, corners: [Point; 2], color: RGBColor, width: f64) -> Drawn<DB> {
        let corners = corners.map(|corner| self.pixel(corner));
        self.area.draw(&Rectangle::new(corners, self.stroke(color, width)))
    }

    pub fn block(&self, corners: [Point; 2], color: RGBColor) -> Drawn<DB> {
        self.area.draw(&Rectangle::new(corners.map(|corner| self.pixel(corner)), color.filled()))
    }

    /// A marker, filled with `color`, or with white and a rim.
    pub fn marker(&self, marker: Marker, at: Point, color: RGBColor, hollow: bool) -> Drawn<DB> {
        const WHITE: RGBColor = RGBColor(255, 255, 255);
        self.shape(marker, at, 4.6, color)?;
        if hollow { self.shape(marker, at, 2.6, WHITE) } else { Ok(()) }
    }

    fn shape(&self, marker: Marker, (x, y): Point, radius: f64, color: RGBColor) -> Drawn<DB> {
        let corners = |corners: &[Point]| -> Vec<(i32, i32)> {
            corners.iter().map(|corner| self.pixel((x + corner.0 * radius, y + corner.1 * radius))).collect()
        };
        let shape = match marker {
            Marker::Circle => {
                let circle = Circle::new(self.pixel((x, y)), (radius * self.scale).round() as i32, color.filled());
                return self.area.draw(&circle);
            }
            Marker::Square => corners(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::Triangle => corners(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            Marker::Diamond => corners(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
        };
        self.area.draw(&Polygon::new(shape, color.filled()))
    }

    /// Text whose middle height is at `at`, and whose start, middle or end is there along the line.
    pub fn text(&self, text: &str, at: Point, lettering: Lettering) -> Drawn<DB> {
        let style = self
            .font(lettering)
            .into_text_style(self.area)
            .color(&lettering.color)
            .pos(Pos::new(lettering.across, VPos::Center));
        self.area.draw(&Text::new(text, self.pixel(at), style))
    }

    /// Width of `text` in CSS pixels.
    pub fn text_width(&self, text: &str, lettering: Lettering) -> f64 {
        picture::text_width(text, lettering.size, lettering.bold)
    }

    fn font(&self, lettering: Lettering) -> FontDesc<'static> {
        let style = if lettering.bold { FontStyle::Bold } else { FontStyle::Normal };
        // Sizes are those of CSS; plotters counts the whole height of a line.
        let font = FontDesc::new(font::family(), lettering.size * font::LINE_OF_EM * self.scale, style);
        font.transform(if lettering.upwards { FontTransform::Rotate270 } else { FontTransform::None })
    }

    fn pixel(&self, (x, y): Point) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }

    fn stroke(&self, color: RGBColor, width: f64) -> ShapeStyle {
        color.stroke_width((width * self.scale).round().max(1.0) as u32)
    }
}
