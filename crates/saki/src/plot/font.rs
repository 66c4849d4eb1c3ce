//! The typeface of plots, carried along so that a plot looks the same on every machine.

use std::sync::LazyLock;

use ab_glyph::FontRef;
use plotters::style::{FontFamily, FontStyle, register_font};

/// As CSS lists it: a reader of an SVG without DejaVu sees something alike.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

const REGULAR: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../../assets/DejaVuSans-Bold.ttf");

/// What plotters calls a font's size, by what CSS does.
pub const LINE_OF_EM: f64 = 1.24;
/// From the middle of lower-case letters down to their line, by the size of CSS.
pub const HALF_OF_LOWER_CASE: f32 = 0.2735;

static FACES: LazyLock<[FontRef<'static>; 2]> = LazyLock::new(|| {
    [(FontStyle::Normal, REGULAR), (FontStyle::Bold, BOLD)].map(|(style, bytes)| {
        // Plotters asks for a registered font even where only the SVG's reader sets letters.
        let _ = register_font(FAMILY, style, bytes);
        FontRef::try_from_slice(bytes).expect("the embedded files are fonts")
    })
});

/// The regular or bold face.
pub fn face(bold: bool) -> &'static FontRef<'static> {
    &FACES[usize::from(bold)]
}

/// The family's name for plotters.
pub fn family() -> FontFamily<'static> {
    LazyLock::force(&FACES);
    FontFamily::Name(FAMILY)
}
