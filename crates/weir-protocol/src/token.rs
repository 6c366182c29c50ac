//! The secret of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret of one run: by it, agents tell each other from strangers that reach their ports. As JSON, 32 hexadecimal
/// digits; as text for people, none of them.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token([u8; Token::BYTES]);

impl Token {
    /// Length, bytes.
    pub const BYTES: usize = 16;

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; Token::BYTES] {
        &self.0
    }
}

impl From<[u8; Token::BYTES]> for Token {
    fn from(bytes: [u8; Token::BYTES]) -> Token {
        Token(bytes)
    }
}

impl From<Token> for String {
    fn from(token: Token) -> String {
        token.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Token {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Token, &'static str> {
        // The text may be a secret with a mistake in it.
        let error = "a token that is not 32 hexadecimal digits";
        if text.len() != 2 * Token::BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(error);
        }
        u128::from_str_radix(&text, 16).map(|number| Token(number.to_be_bytes())).map_err(|_| error)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_and_written_and_never_shown() {
        let text = r#""000102030405060708090a0b0c0d0eff""#;
        let token: Token = serde_json::from_str(text).expect("a token");
        assert_eq!(token.as_bytes(), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(serde_json::to_string(&token).expect("JSON"), text);
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn other_texts_are_refused_and_not_repeated() {
        let digits = "000102030405060708090a0b0c0d0eff";
        for bad in ["", &digits[1..], &digits.replace("ff", "fg"), &format!("+{}", &digits[1..]), &format!("{digits}0")]
        {
            let error = serde_json::from_str::<Token>(&format!("{bad:?}")).expect_err("no token").to_string();
            assert!(error.contains("32 hexadecimal digits"), "{error}");
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
    }
}
