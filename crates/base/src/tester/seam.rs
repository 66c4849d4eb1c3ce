//! Points of the engine at which one question has been answered and the next one is asked: what others do in between
//! must not matter.
//!
//! A tester that lets one thread go at a time (`tools/sim`) has others come in between here, for as long as it likes. A
//! thread at such a point holds nothing that others spin for. Only programs built with debug assertions stop here;
//! elsewhere it costs nothing.

use std::sync::OnceLock;

static AT: OnceLock<fn()> = OnceLock::new();

/// Has every thread do this at every point, from now on. The first who says so is heard.
pub fn watch(at: fn()) {
    let _ = AT.set(at);
}

/// Such a point.
#[inline]
pub fn cross() {
    if cfg!(debug_assertions)
        && let Some(at) = AT.get()
    {
        at();
    }
}
