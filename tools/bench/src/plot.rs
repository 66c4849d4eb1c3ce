//! Writing a chart in the format that its path names.

use std::path::Path;

use saki::plot::Chart;

/// Writes `.png` or `.svg`; both, with the extensions added, where the path has neither.
pub fn save(chart: &Chart, path: &Path) -> Result<(), String> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let saved = match extension {
        "png" => chart.save_png(path),
        "svg" => chart.save_svg(path),
        _ => chart.save(path).map(|_| ()),
    };
    saved.map_err(|error| error.to_string())
}
