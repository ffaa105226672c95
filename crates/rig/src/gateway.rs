//! A gateway under test: the real executable between a scripted service and a client that sends
//! exact bytes.
//!
//! - [`Origin`] is the service: it does what its [`Act`] says and keeps what it saw;
//! - [`Gateway`] is the process: it can be killed, started again, and measured;
//! - [`Wire`] is the caller: it sends bytes as they are and tells a cut answer from a whole one.
//!
//! Nothing here waits for a guessed time. Whatever is waited for has a [`DEADLINE`].

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

mod ask;
mod message;
mod origin;
mod process;
mod reader;
mod wire;

pub use self::ask::Ask;
pub use self::message::{Fields, Malformed};
pub use self::origin::{Act, Answer, Early, Gate, Manners, Origin, Payload, Seen};
pub use self::process::{Ended, Gateway, Launch, shim};
pub use self::wire::{Received, Wire};

/// How long anything that must happen may take, on a machine that does much else.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How long to pause before looking again at something that cannot be waited for.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `look` returns something.
///
/// # Panics
///
/// Panics with `what` if it has not after [`DEADLINE`].
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(DEADLINE, found).await {
        Ok(found) => found,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// Sends one request on a connection of its own and reads the answer.
pub async fn ask(to: SocketAddr, ask: &Ask) -> io::Result<Received> {
    let mut wire = Wire::connect(to).await?;
    wire.send(&ask.bytes()).await?;
    wire.read_for(ask).await
}

/// Returns an address at which nobody listens.
pub fn nowhere() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound listener has one")
}

/// Allows this process, and those it starts from now on, as many open files as it can have.
/// Returns how many that are.
pub fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(1 << 20);
    let raised = Rlimit {
        current: Some(most),
        maximum,
    };
    // If it cannot be raised, the tests that need it say so themselves.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(most)
}
