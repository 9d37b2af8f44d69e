//! A bound on the time in which a client must read: one that never reads would keep its texts' places in the queue.

use std::{
    future::Future,
    io::{Error, ErrorKind, Result},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A connection whose writes fail when the other side reads nothing for some time.
#[derive(Debug)]
pub struct WriteTimeout<T> {
    connection: T,
    time: Duration,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteTimeout<T> {
    /// Bounds the time of each write to a connection.
    pub fn new(connection: T, time: Duration) -> WriteTimeout<T> {
        WriteTimeout {
            connection,
            time,
            timer: None,
        }
    }

    /// Returns the result of a write, or an error if it has waited for too long.
    fn limited<R>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<Result<R>>,
    ) -> Poll<Result<R>> {
        if result.is_ready() {
            self.timer = None;
            return result;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.time)));
        timer.as_mut().poll(context).map(|()| {
            let message = "the client does not read";
            Err(Error::new(ErrorKind::TimedOut, message))
        })
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.limited(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.connection).poll_flush(context);
        self.limited(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.connection).poll_shutdown(context);
        self.limited(context, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        net::{TcpListener, TcpStream},
        runtime::Builder,
    };

    use super::*;

    #[test]
    fn write_to_a_client_that_does_not_read_fails() {
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        let error = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let _client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = WriteTimeout::new(stream, Duration::from_millis(50));
            let bytes = vec![0; 1 << 20];
            // Until all buffers are full.
            loop {
                let write =
                    |context: &mut Context<'_>| Pin::new(&mut stream).poll_write(context, &bytes);
                if let Err(error) = std::future::poll_fn(write).await {
                    break error;
                }
            }
        });
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
