//! Curves as plain data: whoever has a canvas draws them.

/// One chart.
#[derive(Clone, PartialEq, Debug)]
pub struct ChartData {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub x_log: bool,
    pub y_log: bool,
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

impl ChartData {
    /// An empty chart with linear axes.
    pub fn new(title: impl Into<String>, x_label: impl Into<String>, y_label: impl Into<String>) -> Self {
        let (title, x_label, y_label) = (title.into(), x_label.into(), y_label.into());
        Self { title, x_label, y_label, x_log: false, y_log: false, series: Vec::new() }
    }

    /// Adds a point to the curve of that name, which is made if there is none.
    pub fn point(&mut self, series: &str, x: f64, y: f64) {
        match self.series.iter_mut().find(|(name, _)| name == series) {
            Some((_, points)) => points.push((x, y)),
            None => self.series.push((series.into(), vec![(x, y)])),
        }
    }
}
