from trigpoint.spreadsheets import csv_text_guarded


def test_plain_numbers_are_not_guarded_and_none_is_empty() -> None:
    text = csv_text_guarded(["a"], [["-5"], ["+1.5e-3"], [-7], [None], ["-5 m"], ["\rx"]])

    assert text == 'a\r\n-5\r\n+1.5e-3\r\n-7\r\n""\r\n\'-5 m\r\n"\'\rx"\r\n'
