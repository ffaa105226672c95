//! The network: sockets of the machine or, under `--cfg onceward_simulated`, of a simulation.
//!
//! Everything else in the gateway takes its sockets from here. The configuration is no feature of
//! the crate, for `--all-features` would put the product on a network that is none.

use std::io;
#[cfg(not(onceward_simulated))]
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

mod metered;

pub(crate) use metered::Metered;
#[cfg(not(onceward_simulated))]
pub(crate) use tokio::net::{TcpListener, TcpStream, lookup_host};
#[cfg(onceward_simulated)]
pub(crate) use turmoil::net::{TcpListener, TcpStream, lookup_host};

/// A connection on its way from one runtime to another.
#[cfg(not(onceward_simulated))]
pub(crate) type Moving = std::net::TcpStream;
/// A connection on its way from one runtime to another.
#[cfg(onceward_simulated)]
pub(crate) type Moving = TcpStream;

/// What a look at a connection found without taking anything from it.
pub(crate) enum Look {
    /// The other end said that no more comes.
    Ended,
    /// Nothing has come.
    Silent,
    /// Something has come.
    Spoke,
}

/// A connection, encrypted or not, whose close need not be an orderly end.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Lets a close of the connection be a reset, or an orderly end again. A reset drops what the
    /// other side has not read yet.
    fn close_by_reset(&self, resets: bool) -> io::Result<()>;

    /// How many bytes the kernel took, where that is not what a write says: a layer in between
    /// takes more, and has it taken later.
    fn taken(&self) -> u64;
}

// === impl Socket ===

impl<T: Socket> Socket for tokio_rustls::server::TlsStream<T> {
    fn close_by_reset(&self, resets: bool) -> io::Result<()> {
        self.get_ref().0.close_by_reset(resets)
    }

    fn taken(&self) -> u64 {
        self.get_ref().0.taken()
    }
}

#[cfg(not(onceward_simulated))]
impl Socket for TcpStream {
    fn close_by_reset(&self, resets: bool) -> io::Result<()> {
        socket2::SockRef::from(self).set_linger(resets.then_some(Duration::ZERO))
    }

    fn taken(&self) -> u64 {
        0
    }
}

/// A connection in memory has one kind of end.
#[cfg(test)]
impl Socket for tokio::io::DuplexStream {
    fn close_by_reset(&self, _resets: bool) -> io::Result<()> {
        Ok(())
    }

    fn taken(&self) -> u64 {
        0
    }
}

/// Has the kernel ask a peer that says nothing whether it is still there, so that a machine that
/// vanished without a word is noticed within two minutes, even where nobody writes to it.
#[cfg(not(onceward_simulated))]
pub(crate) fn expect_signs_of_life(stream: &TcpStream) -> io::Result<()> {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10))
        .with_retries(6);
    socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Takes a connection out of the runtime that waits for it.
#[cfg(not(onceward_simulated))]
pub(crate) fn leave(stream: TcpStream) -> io::Result<Moving> {
    stream.into_std()
}

/// Lets the current runtime wait for a connection.
#[cfg(not(onceward_simulated))]
pub(crate) fn arrive(stream: Moving) -> io::Result<TcpStream> {
    TcpStream::from_std(stream)
}

/// Lets the current runtime wait for connections to `socket`.
#[cfg(not(onceward_simulated))]
pub(crate) fn listen(socket: std::net::TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(socket)
}

/// Looks at a connection by asking the kernel, whatever the runtime believes about it.
#[cfg(not(onceward_simulated))]
pub(crate) fn look(stream: &mut TcpStream) -> io::Result<Look> {
    let mut byte = [std::mem::MaybeUninit::uninit()];
    match socket2::SockRef::from(&*stream).peek(&mut byte) {
        Ok(0) => Ok(Look::Ended),
        Ok(_) => Ok(Look::Spoke),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Look::Silent),
        Err(error) => Err(error),
    }
}

// === The same in a simulation, where one thread has all the runtimes ===

/// The simulation knows no resets by this side.
#[cfg(onceward_simulated)]
impl Socket for TcpStream {
    fn close_by_reset(&self, _resets: bool) -> io::Result<()> {
        Ok(())
    }

    fn taken(&self) -> u64 {
        0
    }
}

/// Nobody vanishes from a simulation without a word.
#[cfg(onceward_simulated)]
pub(crate) fn expect_signs_of_life(_stream: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// Takes a connection out of the runtime that waits for it.
#[cfg(onceward_simulated)]
pub(crate) fn leave(stream: TcpStream) -> io::Result<Moving> {
    Ok(stream)
}

/// Lets the current runtime wait for a connection.
#[cfg(onceward_simulated)]
pub(crate) fn arrive(stream: Moving) -> io::Result<TcpStream> {
    Ok(stream)
}

/// Refuses: a socket of the machine is none of the simulation's.
#[cfg(onceward_simulated)]
pub(crate) fn listen(_socket: std::net::TcpListener) -> io::Result<TcpListener> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Looks at a connection. Whoever looks polls it next, so nobody has to be woken by this.
#[cfg(onceward_simulated)]
pub(crate) fn look(stream: &mut TcpStream) -> io::Result<Look> {
    let mut byte = [0];
    let mut byte = tokio::io::ReadBuf::new(&mut byte);
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    match stream.poll_peek(&mut nobody, &mut byte) {
        std::task::Poll::Pending => Ok(Look::Silent),
        std::task::Poll::Ready(Ok(0)) => Ok(Look::Ended),
        std::task::Poll::Ready(Ok(_)) => Ok(Look::Spoke),
        std::task::Poll::Ready(Err(error)) => Err(error),
    }
}

#[cfg(all(test, not(onceward_simulated)))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_vanished_is_noticed_within_two_minutes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stream, _) = tokio::join!(TcpStream::connect(addr), listener.accept());
        let stream = stream.unwrap();
        expect_signs_of_life(&stream).unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let silence = socket.tcp_keepalive_time().unwrap();
        let asked = socket.tcp_keepalive_interval().unwrap();
        let in_all = silence + asked * socket.tcp_keepalive_retries().unwrap();
        assert!(in_all <= Duration::from_secs(120), "{in_all:?}");
    }
}
