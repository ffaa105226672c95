#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onceward_rig::fuzz::journal::check(bytes));
