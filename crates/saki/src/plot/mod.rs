//! Charts of measurements, as PNG and SVG.
//!
//! One kind of chart, made well: several series, lines or bars, over two axes, each linear or
//! logarithmic, with a legend and room for a line that says how it was measured.
//!
//! ```no_run
//! use saki::plot::{Axis, Chart, Series};
//!
//! Chart::new("Reads per second by requests in flight")
//!     .subtitle("4 KiB pages, local device")
//!     .x(Axis::log("requests in flight"))
//!     .y(Axis::log("reads per second"))
//!     .series(Series::new("uring", vec![(1.0, 9e3), (32.0, 180e3), (1024.0, 240e3)]))
//!     .series(Series::new("threads", vec![(1.0, 8e3), (32.0, 90e3), (1024.0, 95e3)]).dashed())
//!     .save("depth")?; // depth.svg and depth.png
//! # Ok::<(), saki::plot::PlotError>(())
//! ```
//!
//! `scale` maps values to positions and chooses ticks, `draw` places things,
//! `canvas` turns them into strokes and letters of either format, `picture` holds
//! the pixels of one.

mod canvas;
mod chart;
mod draw;
mod font;
mod picture;
mod scale;

use std::fmt;
use std::path::{Path, PathBuf};

use plotters::prelude::{BitMapBackend, BitMapElement, IntoDrawingArea, SVGBackend};

pub use chart::{Chart, Series};
pub use scale::Axis;

use canvas::Canvas;
use picture::Picture;

/// Width and height of a chart in CSS pixels.
const SIZE: (u32, u32) = (900, 560);
/// A PNG has so many pixels for each of those, to be sharp on dense screens …
const PNG_DENSITY: u32 = 2;
/// … and each of its pixels is the mean of so many squared, to be smooth.
const PNG_SAMPLES: u32 = 2;

/// Why a chart could not be written.
#[derive(Clone, Debug)]
pub struct PlotError {
    path: PathBuf,
    reason: String,
}

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write the plot {}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for PlotError {}

impl Chart {
    /// Writes `stem.svg` and `stem.png`; returns their paths.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save(&self, stem: impl AsRef<Path>) -> Result<[PathBuf; 2], PlotError> {
        let with = |extension: &str| {
            let mut path = stem.as_ref().as_os_str().to_owned();
            path.push(extension);
            PathBuf::from(path)
        };
        let paths = [with(".svg"), with(".png")];
        self.save_svg(&paths[0])?;
        self.save_png(&paths[1])?;
        Ok(paths)
    }

    /// # Errors
    /// When the file cannot be written.
    pub fn save_svg(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        let path = path.as_ref();
        let failed = |error: &dyn fmt::Display| PlotError { path: path.into(), reason: error.to_string() };
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            draw::draw(self, &Canvas::new(&area, 1.0)).map_err(|error| failed(&error))?;
            area.present().map_err(|error| failed(&error))?;
        }
        std::fs::write(path, text).map_err(|error| failed(&error))
    }

    /// # Errors
    /// When the file cannot be written.
    pub fn save_png(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        let path = path.as_ref();
        let failed = |error: &dyn fmt::Display| PlotError { path: path.into(), reason: error.to_string() };
        let size = (SIZE.0 * PNG_DENSITY, SIZE.1 * PNG_DENSITY);
        let mut picture = Picture::new((size.0 * PNG_SAMPLES, size.1 * PNG_SAMPLES));
        {
            let area = (&mut picture).into_drawing_area();
            draw::draw(self, &Canvas::new(&area, f64::from(PNG_DENSITY * PNG_SAMPLES)))
                .map_err(|error| failed(&error))?;
        }
        let pixels = picture.shrink(PNG_SAMPLES);
        let image = BitMapElement::with_owned_buffer((0, 0), size, pixels).expect("the buffer has that size");
        let area = BitMapBackend::new(path, size).into_drawing_area();
        area.draw(&image).and_then(|()| area.present()).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_of_nothing_and_of_one_point_are_drawn() {
        let directory = tempfile::tempdir().unwrap();
        let empty = Chart::new("nothing").x(Axis::log("x"));
        empty.save(directory.path().join("empty")).unwrap();
        let one = empty.series(Series::new("one", vec![(0.0, -1.0), (3.0, f64::NAN), (5.0, 7.0)]));
        let [svg, png] = one.save(directory.path().join("one")).unwrap();
        assert!(std::fs::read_to_string(svg).unwrap().contains("nothing"));
        assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn bars_stand_side_by_side() {
        let series = |name| Series::new(name, vec![(1.0, 2.0), (2.0, 3.0)]).bars();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bars.svg");
        Chart::new("bars")
            .x(Axis::linear("x").whole())
            .series(series("a"))
            .series(series("b"))
            .save_svg(&path)
            .unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        let lefts = |color: &str| -> Vec<f64> {
            let of_color = svg.lines().filter(|line| line.contains("<rect") && line.contains(color));
            of_color
                .map(|line| line.split("x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
                .collect()
        };
        let (first, second) = (lefts("#0072B2"), lefts("#D55E00"));
        assert!(first.len() == 3 && second.len() == 3, "two bars and a sample each:\n{svg}");
        assert!(first.iter().zip(&second).all(|(first, second)| first < second));
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let error = Chart::new("x").save("/nonexistent/plot").unwrap_err().to_string();
        assert!(error.contains("/nonexistent/plot.svg"), "{error}");
    }
}
