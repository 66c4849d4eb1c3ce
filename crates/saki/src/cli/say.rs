//! Writing answers to standard output.

use std::fmt;
use std::io::{self, Write};

/// `println!` that ends the process quietly when nobody reads any more (`saki … | head`), where that would panic.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::say::line(format_args!($($text)*)) };
}

/// See [`say!`].
pub fn line(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if out.write_fmt(text).and_then(|()| out.write_all(b"\n")).is_err() {
        // As good a moment as any other: a change is published whole or not at all.
        std::process::exit(1);
    }
}
