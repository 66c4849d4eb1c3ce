//! How far it is with what takes longer than a second: a line that moves on a terminal, lines one after the other
//! elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long nothing is said.
const SILENCE_MS: u64 = 1_000;

/// One long action.
pub struct Progress {
    action: String,
    started: Instant,
    /// When something was said last, in milliseconds since the start.
    said_ms: AtomicU64,
    /// On a terminal.
    spinner: Option<ProgressBar>,
}

/// Between two looks of the moving line.
const FRAME_MS: u64 = 100;

impl Progress {
    pub fn new(action: impl Into<String>) -> Self {
        let action = action.into();
        let spinner = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})");
            let spinner = ProgressBar::new_spinner().with_prefix(action.clone());
            spinner.with_style(style.expect("a template of known fields"))
        });
        Self { action, started: Instant::now(), said_ms: AtomicU64::new(0), spinner }
    }

    /// Says how far it is, if it is time to. Any thread may.
    pub fn at(&self, how_far: impl FnOnce() -> String) {
        let now = self.started.elapsed().as_millis() as u64;
        let said = self.said_ms.load(Ordering::Relaxed);
        let silence = if self.spinner.is_some() && said > 0 { FRAME_MS } else { SILENCE_MS };
        if now < said + silence {
            return;
        }
        // One of the threads that find it is time says it.
        if self.said_ms.compare_exchange(said, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            match &self.spinner {
                Some(spinner) => {
                    spinner.set_message(how_far());
                    spinner.tick();
                }
                None => eprintln!("{}: {}", self.action, how_far()),
            }
        }
    }

    /// Says that it is done, if it was worth a word.
    pub fn done(self) -> Duration {
        let elapsed = self.started.elapsed();
        self.spinner.iter().for_each(ProgressBar::finish_and_clear);
        if elapsed >= Duration::from_millis(SILENCE_MS) {
            eprintln!("{}: done in {:.1} s", self.action, elapsed.as_secs_f64());
        }
        elapsed
    }
}
