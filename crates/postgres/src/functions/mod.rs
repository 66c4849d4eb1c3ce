//! What the functions of `saki_functions` give in statements.

mod arithmetic;
mod blanks;
mod bytes;
mod choices;
mod domains;
mod encodings;
mod numbers;
mod numeric;
mod patterns;
mod regexps;
mod series;
mod text;
mod to_char;
