//! Clients that are attached to the program of a container (`kubectl attach`, containerd `internal/cri/io`). Each gets
//! the output from then on. Those with input write to the standard input of the program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controllers::machine::programs::{Attach, Input, Output, Session};
use parking_lot::Mutex;
use substrate::{Ctx, latest};
use tokio::sync::mpsc;

use super::stdin::Stdin;

/// Messages that wait in each direction.
const WAITING: usize = 64;
/// Time that a client has to take a message. The program waits for it meanwhile; then the client is cut off.
const SLOW: Duration = Duration::from_secs(10);

/// Program to which clients attach.
pub(super) struct Attachable {
    stdin: Stdin,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    /// True if the program has ended.
    ended: bool,
    /// Number of clients so far.
    count: u64,
    attached: BTreeMap<u64, Client>,
}

#[derive(Clone)]
struct Client {
    outputs: mpsc::Sender<Output>,
    /// True if it gets the output.
    reads: bool,
}

impl Attachable {
    /// Creates a program without clients.
    pub fn new(stdin: Stdin) -> Arc<Self> {
        Arc::new(Self { stdin, clients: Mutex::default() })
    }

    /// Attaches a client. Its input waits until the program, `pid`, runs.
    pub fn attach(self: &Arc<Self>, ctx: &Ctx, mut pid: latest::Receiver<Option<u32>>, attach: Attach) -> Session {
        let ((input, inputs), (outputs, output)) = (mpsc::channel(WAITING), mpsc::channel(WAITING));
        let number = self.add(Client { outputs: outputs.clone(), reads: attach.stdout });
        let program = self.clone();
        ctx.spawn(async move {
            // If the program never runs, its end ends the session.
            if pid.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let writes = attach.stdin && program.stdin.is_open;
            program.feed(writes, inputs).await;
            if writes && program.stdin.is_once && program.stdin.terminal().is_none() {
                program.stdin.end().await;
                if attach.stdout {
                    // The client gets the output until the program ends.
                    return;
                }
            }
            program.remove(number);
            // The client may have gone.
            let _ = outputs.send(Output::Detached).await;
        });
        Session { input, output }
    }

    /// Passes the input of a client to the program, if it `writes`, until the input ends or the program reads no more.
    /// Other input is ignored.
    async fn feed(&self, writes: bool, mut inputs: mpsc::Receiver<Input>) {
        while let Some(one) = inputs.recv().await {
            match one {
                Input::Stdin(bytes) if writes => {
                    if self.stdin.write(&bytes).await.is_err() {
                        return;
                    }
                }
                Input::End if writes => return,
                Input::Resize { width, height } => {
                    if let Some(terminal) = self.stdin.terminal() {
                        terminal.resize(width, height);
                    }
                }
                Input::Stdin(_) | Input::End => {}
            }
        }
    }

    /// Adds a client and returns its number. If the program has ended, the session ends at once.
    fn add(&self, client: Client) -> u64 {
        let mut clients = self.clients.lock();
        clients.count += 1;
        let number = clients.count;
        if clients.ended {
            // The channel is empty.
            let _ = client.outputs.try_send(Output::Detached);
        } else {
            clients.attached.insert(number, client);
        }
        number
    }

    fn remove(&self, number: u64) {
        self.clients.lock().attached.remove(&number);
    }

    /// Sends output to all clients that get it. Waits for slow ones, at most for [`SLOW`].
    pub async fn send(&self, bytes: &[u8]) {
        let mut readers = self.clients.lock().attached.clone();
        readers.retain(|_, client| client.reads);
        if readers.is_empty() {
            return;
        }
        let bytes = Bytes::copy_from_slice(bytes);
        for (number, client) in readers {
            let sent = client.outputs.send_timeout(Output::Stdout(bytes.clone()), SLOW).await;
            if sent.is_err() {
                self.remove(number);
            }
        }
    }

    /// Ends all sessions. The program has ended.
    pub async fn end(&self) {
        let attached = {
            let mut clients = self.clients.lock();
            clients.ended = true;
            std::mem::take(&mut clients.attached)
        };
        for client in attached.into_values() {
            // A client that is gone needs no message.
            let _ = client.outputs.send_timeout(Output::Detached, SLOW).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use controllers::machine::api::ProgramSpec;

    use super::*;

    fn program() -> Arc<Attachable> {
        let text = serde_json::json!({ "command": ["cat"], "env": {}, "directory": "/", "mounts": [] });
        let spec: ProgramSpec = serde_json::from_value(text).expect("a program");
        Attachable::new(Stdin::create(&spec, 0, Path::new("/")).expect("no input").stdin)
    }

    #[tokio::test(start_paused = true)]
    async fn clients_get_the_output_to_its_end_and_a_stuck_one_is_cut_off() {
        let program = program();
        let add = |room: usize, reads: bool| {
            let (outputs, output) = mpsc::channel(room);
            program.add(Client { outputs, reads });
            output
        };
        let (mut first, mut second, mut silent) = (add(8, true), add(8, true), add(8, false));
        let mut stuck = add(1, true);
        program.send(b"a").await;
        program.send(b"b").await;
        program.end().await;
        let texts = [Output::Stdout("a".into()), Output::Stdout("b".into()), Output::Detached];
        for output in [&mut first, &mut second] {
            for text in &texts {
                assert_eq!(output.recv().await.as_ref(), Some(text));
            }
            assert_eq!(output.recv().await, None);
        }
        assert_eq!((silent.recv().await, silent.recv().await), (Some(Output::Detached), None));
        assert_eq!((stuck.recv().await, stuck.recv().await), (Some(Output::Stdout("a".into())), None));
        let mut late = add(1, true);
        assert_eq!((late.recv().await, late.recv().await), (Some(Output::Detached), None));
    }
}
