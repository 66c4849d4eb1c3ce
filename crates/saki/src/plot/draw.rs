//! Where things go on a chart.
//!
//! ```text
//!   title
//!   subtitle
//!   ─●─ series   ─■─ series …
//!   ┌───────────────────────┐
//! y │                       │
//!   └───────────────────────┘
//!               x
//!   note
//! ```

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Drawn, Lettering, Marker, Point};
use super::chart::{Chart, Series};
use super::scale::{Scale, Tick};

const INK: RGBColor = RGBColor(34, 38, 46);
const FAINT_INK: RGBColor = RGBColor(96, 102, 114);
const GRID: RGBColor = RGBColor(214, 218, 225);
const FAINT_GRID: RGBColor = RGBColor(238, 240, 244);

/// Told apart by readers with any colour vision (after Okabe and Ito), in an order where neighbours differ in lightness
/// too.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(170, 68, 153),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(68, 68, 68),
];
const MARKERS: [Marker; 4] = [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond];

const MARGIN: f64 = 24.0;
const LEGEND_ROW: f64 = 22.0;
const LEGEND_SAMPLE: f64 = 30.0;
const LEGEND_GAP: f64 = 26.0;

const PLAIN: Lettering = Lettering { size: 12.0, bold: false, color: INK, across: HPos::Left, upwards: false };
const TITLE: Lettering = Lettering { size: 17.0, bold: true, ..PLAIN };
const SUBTITLE: Lettering = Lettering { size: 12.5, color: FAINT_INK, ..PLAIN };
const NOTE: Lettering = Lettering { size: 10.5, color: FAINT_INK, ..PLAIN };
const AXIS: Lettering = Lettering { size: 12.5, across: HPos::Center, ..PLAIN };

/// The rectangle that the lines are in, and its scales.
struct Field {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

impl Field {
    fn x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.place(value)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.place(value)
    }
}

pub fn draw<DB: DrawingBackend>(chart: &Chart, canvas: &Canvas<'_, DB>) -> Drawn<DB> {
    let (width, height) = canvas.size();
    canvas.fill(RGBColor(255, 255, 255))?;
    let mut top = MARGIN + 8.0;
    canvas.text(&chart.title, (MARGIN, top), TITLE)?;
    if !chart.subtitle.is_empty() {
        top += 24.0;
        canvas.text(&chart.subtitle, (MARGIN, top), SUBTITLE)?;
    }
    top = draw_legend(chart, canvas, top + 28.0, width)?;

    let mut bottom = height - MARGIN;
    if !chart.note.is_empty() {
        canvas.text(&chart.note, (MARGIN, bottom), NOTE)?;
        bottom -= 24.0;
    }
    let shown = || chart.series.iter().flat_map(|series| visible(chart, series));
    let (x, y) = (chart.x.scale(shown().map(|point| point.0)), chart.y.scale(shown().map(|point| point.1)));
    let y_ticks = y.ticks(6);
    let labels = y_ticks.iter().filter_map(|tick| tick.label.as_deref());
    let label_width = labels.map(|label| canvas.text_width(label, PLAIN)).fold(0.0, f64::max);
    let left = MARGIN + label_width + if chart.y.label.is_empty() { 8.0 } else { 28.0 };
    let field = Field { left, right: width - MARGIN - 6.0, top, bottom: bottom - 46.0, x, y };
    draw_axes(chart, canvas, &field, &y_ticks, bottom)?;
    let bars = chart.series.iter().filter(|series| series.bars).count();
    let mut bars_drawn = 0;
    for (index, series) in chart.series.iter().enumerate() {
        let points = visible(chart, series);
        if series.bars {
            draw_bars(canvas, &field, points, (bars_drawn, bars), color_of(series, index))?;
            bars_drawn += 1;
        } else {
            let points: Vec<Point> = points.map(|(x, y)| (field.x(x), field.y(y))).collect();
            draw_line(canvas, series, index, &points)?;
        }
    }
    Ok(())
}

/// Bars from the bottom of the field up: the `position`th of `count` that stand around each whole x value.
fn draw_bars<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    field: &Field,
    mut points: impl Iterator<Item = (f64, f64)>,
    (position, count): (usize, usize),
    color: RGBColor,
) -> Drawn<DB> {
    /// Of the distance between two whole numbers.
    const GROUP_WIDTH: f64 = 0.76;
    let width = GROUP_WIDTH / count as f64;
    points.try_for_each(|(x, y)| {
        let left = x - GROUP_WIDTH / 2.0 + width * position as f64;
        canvas.block([(field.x(left), field.y(y)), (field.x(left + width), field.bottom)], color)
    })
}

/// The points of `series` that both axes have a place for.
fn visible<'a>(chart: &'a Chart, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
    series.points.iter().copied().filter(|(x, y)| chart.x.shows(*x) && chart.y.shows(*y))
}

fn draw_axes<DB: DrawingBackend>(
    chart: &Chart,
    canvas: &Canvas<'_, DB>,
    field: &Field,
    y_ticks: &[Tick],
    bottom: f64,
) -> Drawn<DB> {
    let x_ticks = field.x.ticks(8);
    // All faint lines first, so that none crosses a stronger one.
    for labelled in [false, true] {
        let (color, width) = if labelled { (GRID, 1.0) } else { (FAINT_GRID, 1.0) };
        for tick in x_ticks.iter().filter(|tick| tick.label.is_some() == labelled) {
            let x = field.x(tick.value);
            canvas.line(&[(x, field.top), (x, field.bottom)], color, width)?;
        }
        for tick in y_ticks.iter().filter(|tick| tick.label.is_some() == labelled) {
            let y = field.y(tick.value);
            canvas.line(&[(field.left, y), (field.right, y)], color, width)?;
        }
    }
    canvas.rectangle([(field.left, field.top), (field.right, field.bottom)], FAINT_INK, 1.0)?;
    for tick in &x_ticks {
        if let Some(label) = &tick.label {
            canvas.text(
                label,
                (field.x(tick.value), field.bottom + 14.0),
                Lettering { across: HPos::Center, ..PLAIN },
            )?;
        }
    }
    for tick in y_ticks {
        if let Some(label) = &tick.label {
            canvas.text(label, (field.left - 8.0, field.y(tick.value)), Lettering { across: HPos::Right, ..PLAIN })?;
        }
    }
    let middle = ((field.left + field.right) / 2.0, (field.top + field.bottom) / 2.0);
    canvas.text(&chart.x.label, (middle.0, bottom - 8.0), AXIS)?;
    canvas.text(&chart.y.label, (MARGIN, middle.1), Lettering { upwards: true, ..AXIS })
}

/// Names of the series in rows; returns where the rows end.
fn draw_legend<DB: DrawingBackend>(
    chart: &Chart,
    canvas: &Canvas<'_, DB>,
    top: f64,
    width: f64,
) -> Result<f64, plotters::drawing::DrawingAreaErrorKind<DB::ErrorType>> {
    if chart.series.is_empty() {
        return Ok(top);
    }
    let (mut x, mut y) = (MARGIN, top);
    for (index, series) in chart.series.iter().enumerate() {
        let entry = LEGEND_SAMPLE + 8.0 + canvas.text_width(&series.name, PLAIN);
        if x > MARGIN && x + entry > width - MARGIN {
            (x, y) = (MARGIN, y + LEGEND_ROW);
        }
        let sample = [(x, y), (x + LEGEND_SAMPLE / 2.0, y), (x + LEGEND_SAMPLE, y)];
        if series.bars {
            canvas.block([(x, y - 6.0), (x + LEGEND_SAMPLE, y + 6.0)], color_of(series, index))?;
        } else {
            draw_stroke(canvas, series, index, &sample)?;
            draw_markers(canvas, series, index, &sample[1..2])?;
        }
        canvas.text(&series.name, (x + LEGEND_SAMPLE + 8.0, y), PLAIN)?;
        x += entry + LEGEND_GAP;
    }
    Ok(y + LEGEND_ROW)
}

fn draw_line<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    series: &Series,
    index: usize,
    points: &[Point],
) -> Drawn<DB> {
    draw_stroke(canvas, series, index, points)?;
    draw_markers(canvas, series, index, points)
}

fn draw_stroke<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    series: &Series,
    index: usize,
    points: &[Point],
) -> Drawn<DB> {
    let color = color_of(series, index);
    if series.dashed { canvas.dashed_line(points, color, 2.0) } else { canvas.line(points, color, 2.0) }
}

fn draw_markers<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    series: &Series,
    index: usize,
    points: &[Point],
) -> Drawn<DB> {
    let color = color_of(series, index);
    let marker = MARKERS[series.color.unwrap_or(index) % MARKERS.len()];
    points.iter().try_for_each(|point| canvas.marker(marker, *point, color, series.dashed))
}

fn color_of(series: &Series, index: usize) -> RGBColor {
    PALETTE[series.color.unwrap_or(index) % PALETTE.len()]
}
