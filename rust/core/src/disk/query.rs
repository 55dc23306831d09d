//! Questions in SQL: one statement that only reads, with bounds on time and size.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};

use super::failure::Failure;
use super::{Disk, open};
use crate::base::{Error, Result, limits};

/// A value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A float.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// What a question gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, at most as many as asked for.
    pub rows: Vec<Vec<SqlValue>>,
    /// There were more rows than asked for.
    pub more: bool,
}

/// Instructions of SQLite's machine in one question: some seconds of work.
const INSTRUCTIONS: u32 = 400_000_000;
/// Instructions between two looks at the budget.
const STEP: u32 = 100_000;
/// Bytes of an answer.
const ANSWER_BYTES: usize = 256 << 20;

impl Disk {
    /// Answers one SELECT with at most `limit` rows. It sees every memory of the store in any state, so it belongs to
    /// whoever owns the store. The view `memories` has names and times in readable form.
    pub fn query(&self, sql: &str, limit: usize) -> Result<Answer> {
        if sql.len() > limits::TEXT_BYTES {
            return Err(Error::limit("bytes of SQL", sql.len(), limits::TEXT_BYTES));
        }
        let operation = "answer a question in SQL";
        let Some(place) = &self.place else {
            return self.with_reader(operation, |connection| {
                connection.pragma_update(None, "query_only", true)?;
                let answer = guarded(connection, sql, limit);
                connection.pragma_update(None, "query_only", false)?;
                answer
            });
        };
        self.check_open()?;
        let _lent = self.lend();
        // A connection of its own: a question that was cut short leaves nothing behind for the others.
        let answer = open::reader(place, &self.options).and_then(|mut connection| guarded(&mut connection, sql, limit));
        answer.map_err(|failure| failure.reading(operation, &self.shown_path(), self.options.busy_timeout_ms))
    }
}

fn guarded(connection: &mut Connection, sql: &str, limit: usize) -> Result<Answer, Failure> {
    let spent = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&spent);
    let mut steps = 0;
    connection.progress_handler(
        STEP as i32,
        Some(move || {
            steps += 1;
            let over = steps > INSTRUCTIONS / STEP;
            mark.fetch_or(over, Ordering::Relaxed);
            over
        }),
    )?;
    connection.authorizer(Some(only_reads))?;
    let answer = answer(connection, sql, limit);
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    connection.progress_handler(0, None::<fn() -> bool>)?;
    answer.map_err(|failure| match failure {
        Failure::Sqlite(_) if spent.load(Ordering::Relaxed) => Failure::Told(Error::Limit {
            what: "instructions of the SQL statement".to_owned(),
            got: u64::from(INSTRUCTIONS) + 1,
            limit: u64::from(INSTRUCTIONS),
        }),
        Failure::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                Failure::Told(Error::invalid("sql", format!("only SELECT on the store's tables is answered: {error}")))
            }
            // The statement itself is wrong, or a value in it is.
            Some(ErrorCode::Unknown | ErrorCode::TooBig | ErrorCode::TypeMismatch) | None => {
                Failure::Told(Error::invalid("sql", error.to_string()))
            }
            Some(_) => Failure::Sqlite(error),
        },
        told @ Failure::Told(_) => told,
    })
}

fn only_reads(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

fn answer(connection: &Connection, sql: &str, limit: usize) -> Result<Answer, Failure> {
    // `prepare` calls itself for each statement that follows; a batch does not, so a long text cannot fill the stack.
    let mut batch = rusqlite::Batch::new(connection, sql);
    let Some(mut statement) = batch.next()? else {
        return Err(Failure::Told(Error::invalid("sql", "there is no statement in it")));
    };
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Failure::Told(Error::invalid("sql", "only SELECT is answered")));
    }
    if statement.parameter_count() > 0 {
        return Err(Failure::Told(Error::invalid("sql", "parameters cannot be bound here")));
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut answer = Answer { columns, rows: Vec::new(), more: false };
    let mut bytes = 0;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if answer.rows.len() == limit {
            answer.more = true;
            break;
        }
        let values = (0..answer.columns.len()).map(|column| value(row.get_ref(column)?, &mut bytes));
        answer.rows.push(values.collect::<Result<_, Failure>>()?);
        if bytes > ANSWER_BYTES {
            return Err(Failure::Told(Error::limit("bytes of the answer", bytes, ANSWER_BYTES)));
        }
    }
    drop(rows);
    drop(statement);
    if batch.next()?.is_some() {
        return Err(Failure::Told(Error::invalid("sql", "one statement is answered at a time")));
    }
    Ok(answer)
}

fn value(value: ValueRef<'_>, bytes: &mut usize) -> Result<SqlValue, Failure> {
    *bytes += size_of::<SqlValue>();
    Ok(match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(value) => SqlValue::Integer(value),
        ValueRef::Real(value) => SqlValue::Real(value),
        ValueRef::Text(text) => {
            *bytes += text.len();
            let text = std::str::from_utf8(text).map_err(|_| {
                Failure::Told(Error::invalid("sql", "a text in the answer is not UTF-8; cast it to a blob"))
            })?;
            SqlValue::Text(text.to_owned())
        }
        ValueRef::Blob(blob) => {
            *bytes += blob.len();
            SqlValue::Blob(blob.to_vec())
        }
    })
}
