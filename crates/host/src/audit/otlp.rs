//! The sink that sends records to an OpenTelemetry collector: OTLP over HTTP, as JSON. The file is
//! the log, this is a copy elsewhere: records that do not fit into the queue are dropped and
//! counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use trunkline_transport::http::{FetchRequest, Fetcher};
use trunkline_transport::net::Dialer;
use url::Url;

use super::{AuditEvent, AuditRecord, AuditSink};
use crate::logs::worker::{BatchWriter, Budget, Worker};

/// The memory of records that wait for the collector, in bytes.
const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;

/// Records in one request.
const MAX_BATCH: usize = 512;

/// The time limit of one request, and the pause after one that failed.
const TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

/// The longest response that is read, in bytes.
const MAX_RESPONSE: usize = 64 * 1024;

/// `INFO` of the severities.
const SEVERITY: u8 = 9;

/// Sends records to a collector.
pub(super) struct Otlp {
    worker: Worker<AuditRecord>,
    shared: Arc<Shared>,
}

struct Shared {
    url: Url,
    budget: Budget,
    problem: ArcSwapOption<String>,
}

impl Otlp {
    pub(super) fn new(url: Url) -> Self {
        let shared = Arc::new(Shared {
            url,
            budget: Budget::new(MAX_QUEUED_BYTES),
            problem: ArcSwapOption::empty(),
        });
        let sender = Sender {
            shared: Arc::clone(&shared),
            unsent: Vec::new(),
            failed: None,
        };
        Self {
            worker: Worker::new("audit-otlp", sender),
            shared,
        }
    }
}

impl AuditSink for Otlp {
    fn record(&self, record: AuditRecord) {
        if self.shared.budget.take(record.weight()) {
            self.worker.push(record);
        } else {
            self.shared.budget.count_lost(1);
        }
    }

    fn problem(&self) -> Option<String> {
        let problem = self.shared.problem.load();
        let problem = problem.as_ref()?;
        let url = &self.shared.url;
        Some(format!("the audit log cannot be sent to {url}: {problem}"))
    }

    fn flush(&self, limit: Duration) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            self.worker.flush(limit).await;
            // A copy does not hold up what the log itself has.
            true
        })
    }
}

/// Sends batches on the thread.
struct Sender {
    shared: Arc<Shared>,
    /// Records that the collector has not taken, with their weights.
    unsent: Vec<(Value, usize)>,
    failed: Option<Instant>,
}

/// Why a request failed.
enum Refused {
    /// It may succeed later.
    Later(String),
    /// It never will.
    Never(String),
}

impl Sender {
    fn send_all(&mut self) {
        loop {
            let lost = self.shared.budget.take_lost();
            if self.unsent.is_empty() && lost == 0 {
                return;
            }
            let note = AuditRecord::now(AuditEvent::Lost { count: lost });
            let note = (lost > 0).then(|| log_record(&note));
            let count = self.unsent.len().min(MAX_BATCH);
            let batch = self.unsent[..count].iter().map(|(record, _)| record);
            let sent = self.post(note.iter().chain(batch));
            match &sent {
                Ok(()) => self.shared.problem.store(None),
                Err(Refused::Later(problem) | Refused::Never(problem)) => {
                    self.shared.budget.count_lost(lost);
                    self.shared.problem.store(Some(Arc::new(problem.clone())));
                }
            }
            if let Err(Refused::Later(_)) = sent {
                self.failed = Some(Instant::now());
                return;
            }
            self.failed = None;
            let taken = self.unsent.drain(..count);
            let weight = taken.map(|(_, weight)| weight).sum();
            self.shared.budget.release(weight);
            if sent.is_err() {
                self.shared.budget.count_lost(count as u64);
                return;
            }
        }
    }

    fn post<'r>(&self, records: impl Iterator<Item = &'r Value>) -> Result<(), Refused> {
        let later = |error: &dyn std::fmt::Display| Refused::Later(error.to_string());
        let url = &self.shared.url;
        let body = json!({"resourceLogs": [{
            "resource": {"attributes": [attribute("service.name", &json!("trunkline"))]},
            "scopeLogs": [{
                "scope": {"name": "trunkline.audit", "version": env!("CARGO_PKG_VERSION")},
                "logRecords": records.collect::<Vec<_>>(),
            }],
        }]});
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| later(&error))?;
        // A connection of its own for each batch: its tasks end with the runtime.
        let fetcher = Fetcher::new(&Dialer::from_env(), url, &[], None);
        let fetcher = fetcher.map_err(|error| later(&error))?;
        let json = HeaderValue::from_static("application/json");
        let request = FetchRequest {
            method: Method::POST,
            url,
            headers: vec![(HeaderName::from_static("content-type"), json)],
            body: body.to_string().into(),
        };
        let response = runtime.block_on(async {
            tokio::time::timeout(TIMEOUT, fetcher.send(request, MAX_RESPONSE)).await
        });
        let response = response.map_err(|_| later(&"it does not answer in time"))?;
        let status = response.map_err(|error| later(&error))?.status;
        match status {
            200..300 => Ok(()),
            429 | 502..=504 => Err(later(&format_args!("status {status}"))),
            _ => Err(Refused::Never(format!("status {status}"))),
        }
    }
}

impl BatchWriter<AuditRecord> for Sender {
    fn write_batch(&mut self, records: Vec<AuditRecord>) {
        let records = records.into_iter();
        self.unsent
            .extend(records.map(|record| (log_record(&record), record.weight())));
        if self.failed.is_none_or(|failed| failed.elapsed() >= PAUSE) {
            self.send_all();
        }
    }

    fn flush(&mut self) {
        self.send_all();
    }
}

/// A record in the form of the protocol: its members are attributes, its text is the body.
fn log_record(record: &AuditRecord) -> Value {
    let members = serde_json::to_value(record).unwrap_or_default();
    let text = members.to_string();
    let attributes = members.as_object().into_iter().flatten();
    let attributes = attributes.filter(|(name, _)| !matches!(name.as_str(), "time" | "event"));
    let attributes: Vec<Value> = attributes
        .map(|(name, value)| attribute(&format!("trunkline.{name}"), value))
        .collect();
    json!({
        "timeUnixNano": record.unix_nanos().to_string(),
        "severityNumber": SEVERITY,
        "severityText": "INFO",
        "eventName": record.event.name(),
        "body": {"stringValue": text},
        "attributes": attributes,
    })
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::String(text) => json!({"stringValue": text}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        // Whole numbers are texts in the protocol.
        Value::Number(number) if number.is_u64() || number.is_i64() => {
            json!({"intValue": number.to_string()})
        }
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    /// A collector that answers with these statuses, and then with 200.
    fn collector(statuses: &'static [u16]) -> (Url, mpsc::Receiver<(String, Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (found, received) = mpsc::channel();
        std::thread::spawn(move || {
            let mut statuses = statuses.iter();
            for client in listener.incoming().flatten() {
                let mut reader = BufReader::new(&client);
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {
                    let line = head
                        .trim_end()
                        .rsplit("\r\n")
                        .next()
                        .unwrap()
                        .to_ascii_lowercase();
                    if let Some(value) = line.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let status = statuses.next().unwrap_or(&200);
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
                );
                (&client).write_all(answer.as_bytes()).unwrap();
                let body = serde_json::from_slice(&body).unwrap();
                if found.send((head, body)).is_err() {
                    return;
                }
            }
        });
        (
            Url::parse(&format!("http://{address}/v1/logs")).unwrap(),
            received,
        )
    }

    fn records(body: &Value) -> &Vec<Value> {
        body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
            .as_array()
            .unwrap()
    }

    fn count(record: &Value) -> &Value {
        let mut attributes = record["attributes"].as_array().unwrap().iter();
        let count = attributes.find(|attribute| attribute["key"] == "trunkline.count");
        &count.unwrap()["value"]["intValue"]
    }

    #[tokio::test]
    async fn a_collector_gets_every_record_once_although_it_is_unavailable_first() {
        let (url, received) = collector(&[503]);
        let sink = Otlp::new(url);
        sink.record(AuditRecord::now(AuditEvent::Lost { count: 1 }));
        sink.flush(Duration::from_secs(20)).await;
        sink.record(AuditRecord::now(AuditEvent::Lost { count: 2 }));
        sink.flush(Duration::from_secs(20)).await;
        let (head, first) = received.recv().unwrap();
        assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
        assert!(
            head.to_ascii_lowercase()
                .contains("content-type: application/json"),
            "{head}"
        );
        let refused = records(&first).len();
        let mut taken = Vec::new();
        while taken.len() < 2 {
            let (_, body) = received.recv_timeout(Duration::from_secs(20)).unwrap();
            taken.extend(records(&body).clone());
        }
        assert_eq!(
            (refused, count(&taken[0]), count(&taken[1])),
            (1, &json!("1"), &json!("2"))
        );
        assert_eq!(taken[0]["eventName"], "lost");
        let body: Value =
            serde_json::from_str(taken[0]["body"]["stringValue"].as_str().unwrap()).unwrap();
        assert_eq!(body["event"], "lost");
        assert_eq!(sink.problem(), None);
    }

    #[tokio::test]
    async fn a_collector_that_is_not_there_costs_bounded_memory_and_no_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let sink = Otlp::new(Url::parse(&format!("http://{address}/v1/logs")).unwrap());
        let began = Instant::now();
        for number in 0..100_000 {
            sink.record(AuditRecord::now(AuditEvent::Lost { count: number }));
        }
        assert!(began.elapsed() < Duration::from_secs(20));
        sink.flush(Duration::from_secs(20)).await;
        assert!(
            sink.problem()
                .unwrap()
                .contains("cannot be sent to http://127.0.0.1")
        );
        assert!(sink.shared.budget.take_lost() > 0);
        assert_eq!(sink.refusal(), None);
    }
}
