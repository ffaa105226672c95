//! The runtime of the commands that talk to a store; the others start none.

use tokio::runtime::Builder;

use crate::exit::Failure;

/// How many threads a runtime has here: callers are served in lanes of their own.
const THREADS: usize = 2;

/// How many threads callers are served in: one per core.
pub(crate) fn lanes() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` to its end on a runtime of its own.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                format!("the runtime cannot start: {error}"),
                "raise the limits on threads and open files of this user",
            )
        })?;
    runtime.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::block_on;

    #[test]
    fn work_runs_to_its_end() {
        assert_eq!(block_on(async { Ok(1) }).unwrap(), 1);
    }
}
