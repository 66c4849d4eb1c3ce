//! Bars and lines that say a command is at work. They show on a terminal only; elsewhere plain lines mark the steps.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `total` steps; `template` in indicatif's language.
fn bar(total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A bar for rows with a rate and the time left. `message` is for what else there is to say.
pub fn rows(name: &str, total: u64) -> ProgressBar {
    let template = "{prefix:10} [{bar:30}] {percent:>3}% {human_pos:>11} rows  {msg}";
    bar(total, template).with_prefix(name.to_owned())
}

/// A bar for steps of a known number.
pub fn steps(name: &str, total: u64) -> ProgressBar {
    bar(total, "{prefix} [{bar:30}] {percent:>3}%  {msg}").with_prefix(name.to_owned())
}

/// A line with a moving mark, for work of unknown length.
pub fn line(message: impl Into<String>) -> ProgressBar {
    let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style =
        ProgressStyle::with_template("{spinner} {msg}  {elapsed}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    line.set_style(style);
    line.set_message(message.into());
    line.enable_steady_tick(Duration::from_millis(100));
    line
}

/// Rates of a load and the time left, for the end of a bar.
pub fn load_rates(rows: u64, bytes: u64, total_rows: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let rate = rows as f64 / seconds;
    let left = Duration::from_secs_f64((total_rows.saturating_sub(rows)) as f64 / rate.max(1.0));
    format!("{} rows/s  {:.0} MB/s  {} left", short(rate), bytes as f64 / 1e6 / seconds, HumanDuration(left))
}

/// A number in few characters: `950`, `12.3 k`, `4.56 M`.
pub fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 1e9 => format!("{:.2} G", number / 1e9),
        n if n >= 1e6 => format!("{:.2} M", number / 1e6),
        n if n >= 1e4 => format!("{:.1} k", number / 1e3),
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A duration in few characters: `3.42 ms`, `1.25 s`, `2 min 05 s`.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 120.0 => format!("{} min {:02} s", (s / 60.0) as u64, (s % 60.0) as u64),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.01 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.2} ms", s * 1e3),
    }
}

/// Whether progress is seen by a person.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
