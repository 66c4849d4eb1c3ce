//! What is drawn: a chart and its series.

use super::scale::Axis;

/// A chart under construction.
#[derive(Clone, Debug)]
pub struct Chart {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) note: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// A named line through points, or a named bar at each of them.
#[derive(Clone, Debug)]
pub struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) bars: bool,
    pub(super) dashed: bool,
    pub(super) color: Option<usize>,
}

impl Series {
    /// A solid line in the next colour.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, bars: false, dashed: false, color: None }
    }

    /// Draws the line dashed, its markers hollow.
    #[must_use]
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// Draws a bar at each point instead, beside those of other such series; x values are whole numbers.
    #[must_use]
    pub fn bars(mut self) -> Self {
        self.bars = true;
        self
    }

    /// Takes the `index`th colour of the palette, so that related series can share one.
    #[must_use]
    pub fn color(mut self, index: usize) -> Self {
        self.color = Some(index);
        self
    }
}

impl Chart {
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            note: String::new(),
            x: Axis::linear(""),
            y: Axis::linear(""),
            series: Vec::new(),
        }
    }

    /// A line under the title: what was measured, on what.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// A small line at the bottom: how it was measured.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.note = text.into();
        self
    }

    #[must_use]
    pub fn x(mut self, axis: Axis) -> Self {
        self.x = axis;
        self
    }

    #[must_use]
    pub fn y(mut self, axis: Axis) -> Self {
        self.y = axis;
        self
    }

    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }
}
