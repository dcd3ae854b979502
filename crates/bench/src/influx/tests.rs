use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

/// A server that keeps what it is sent and answers with `status`.
fn server(listener: TcpListener, status: u16) -> Receiver<String> {
    let (sender, bodies) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut text = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                text.extend(&buffer[..length]);
                let whole = String::from_utf8_lossy(&text).into_owned();
                let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
                });
                if Some(body.len()) >= length {
                    let _ = sender.send(body.to_owned());
                    let answer = format!(
                        "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    );
                    let _ = stream.write_all(answer.as_bytes());
                    break;
                }
            }
        }
    });
    bodies
}

fn sender(address: SocketAddr, folder: &Path) -> Sender {
    let database = Database {
        host: format!("http://{address}"),
        name: "b".to_owned(),
        user: None,
        password: None,
        org: None,
    };
    Sender::new(Client::new(&database).unwrap(), Spool::open(&folder.join("spool")).unwrap())
}

#[test]
fn what_a_server_that_is_away_misses_is_sent_in_order_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let mut sender = sender(address, folder.path());
    for number in 0..5 {
        sender.add(vec![format!("m a={number}i 1")]);
        sender.send();
    }
    assert_eq!(sender.spool.len(), 5, "{:?}", sender.done);
    let bodies = server(TcpListener::bind(address).unwrap(), 204);
    let done = sender.finish();
    assert_eq!((done.sent, done.lost, done.waiting), (5, 0, 0), "{done:?}");
    let all: String = bodies.try_iter().collect();
    let expected: String = (0..5).map(|number| format!("m a={number}i 1\n")).collect();
    assert_eq!(all, expected);
}

#[test]
fn what_a_server_refuses_for_good_is_counted_and_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(listener.local_addr().unwrap(), folder.path());
    let bodies = server(listener, 400);
    sender.add(vec!["bad".to_owned(), "lines".to_owned()]);
    let done = sender.finish();
    assert_eq!((done.sent, done.lost, done.waiting), (0, 2, 0), "{done:?}");
    assert_eq!(bodies.try_iter().count(), 1);
}
