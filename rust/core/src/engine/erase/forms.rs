//! The forms in which a value of a memory may lie in a file.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use serde_json::Value as Json;

use crate::disk::Trace;
use crate::index::vectors::Prepared;

/// Gives a value as it is stored, and if `thorough` in the forms that other programs might give it: a text as JSON
/// escapes it, in both ways, and in UTF-16; a vector as f32 numbers and as codes. Says whether any of them was taken.
pub(super) fn forms(kind: Trace, bytes: &[u8], thorough: bool, take: &mut dyn FnMut(Trace, &[u8]) -> bool) -> bool {
    let mut any = take(kind, bytes);
    if !thorough {
        return any;
    }
    match (kind, std::str::from_utf8(bytes)) {
        (Trace::Text, Ok(text)) => {
            let quoted = Json::from(text).to_string();
            let quoted = &quoted[1..quoted.len() - 1];
            if quoted != text {
                any |= take(kind, quoted.as_bytes());
            }
            if !text.is_ascii() {
                any |= take(kind, in_ascii(quoted).as_bytes());
            }
            let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            any |= take(kind, &wide);
        }
        (Trace::Vector, _) => {
            let halves: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            let mut values = vec![0.0_f32; halves.len()];
            halves.reinterpret_cast::<f16>().convert_to_f32_slice(&mut values);
            let floats: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            any |= take(kind, &floats);
            if let Ok(prepared) = Prepared::from_f16(&halves, halves.len().max(1)) {
                any |= (0..prepared.count()).any(|place| take(kind, &prepared.code_bytes(place)));
            }
        }
        _ => {}
    }
    any
}

/// JSON text with every sign beyond ASCII escaped.
fn in_ascii(quoted: &str) -> String {
    let mut escaped = String::with_capacity(quoted.len() * 2);
    for character in quoted.chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            escaped.push_str("\\u");
            for shift in [12, 8, 4, 0] {
                escaped.push(char::from_digit(u32::from(*unit >> shift & 0xf), 16).unwrap_or('0'));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(kind: Trace, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        forms(kind, bytes, true, &mut |_, form| {
            found.push(form.to_vec());
            true
        });
        found
    }

    #[test]
    fn a_text_has_four_forms_where_they_differ() {
        let forms = all(Trace::Text, "a\"é😀".as_bytes());
        let wide: Vec<u8> = "a\"é😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let expected = ["a\"é😀".as_bytes(), "a\\\"é😀".as_bytes(), b"a\\\"\\u00e9\\ud83d\\ude00", &wide];
        assert_eq!(forms, expected);
        assert_eq!(all(Trace::Text, b"plain").len(), 2);
        assert_eq!(all(Trace::Text, b"\xff no text"), [b"\xff no text".to_vec()]);
    }

    #[test]
    fn a_vector_has_three() {
        let halves: Vec<u8> =
            [1.0_f32, -0.5, 0.25, 0.0].iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
        let floats: Vec<u8> = [1.0_f32, -0.5, 0.25, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let codes: Vec<u8> = [127_i8, -64, 32, 0].iter().map(|code| code.cast_unsigned()).collect();
        assert_eq!(all(Trace::Vector, &halves), [halves.clone(), floats, codes]);
        assert_eq!(all(Trace::Vector, &[]), [Vec::<u8>::new(), Vec::new()]);
    }
}
