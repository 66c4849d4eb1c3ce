#![no_main]

// The codec catches what the library asserts; the fuzzer's own hook would end the process before.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |data: &[u8]| saki_fuzz::columns::column(data)
);
