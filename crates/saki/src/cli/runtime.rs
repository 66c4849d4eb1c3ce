//! The threads that queries run on.

use saki_base::stack::STACK_BYTES;

use super::failure::{Failure, Outcome};

pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("saki-query")
        .thread_stack_size(STACK_BYTES)
        .build();
    built.map_err(|error| Failure::new(format!("cannot start threads: {error}")))
}
