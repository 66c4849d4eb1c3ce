#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| saki_fuzz::values::texts::records(data));
