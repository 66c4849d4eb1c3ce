#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| saki_fuzz::texts::records(data));
