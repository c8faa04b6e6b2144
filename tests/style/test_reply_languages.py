"""Which language a reply is in."""

# ruff: noqa: RUF001 - other scripts are the point

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.lexicons import load_lexicon
from steadyhelm.style.prose import LANGUAGES, _count_by_language, detect_language, read_prose

SAMPLES = {
    "en": "The file is read twice because the header is needed before the rows are.",
    "de": "Die Datei wird zweimal gelesen, weil man den Kopf vor den Zeilen braucht.",
    "fr": "Le fichier est lu deux fois parce que nous avons besoin de la tête avant les lignes.",
    "es": "El archivo se lee dos veces porque la cabecera es necesaria antes de las filas.",
    "it": "Il file viene letto due volte perché la testata è necessaria prima delle righe.",
    "pt": "O arquivo é lido duas vezes porque o cabeçalho é necessário antes das linhas.",
    "nl": "Het bestand wordt twee keer gelezen omdat de kop nodig is voor de regels.",
    "sv": "Filen läses två gånger eftersom man behöver ha huvudet innan det är dags för raderna.",
    "pl": "Plik jest czytany dwa razy, bo nie można go podzielić i to jest potrzebne przed wierszami.",
    "tr": "Dosya iki kez okunuyor ve bu gerekli, çünkü başlık satırlardan önce bir kez daha lazım.",
    "ru": "Файл читается дважды, потому что заголовок нужен раньше строк.",
    "zh": "文件被读取两次，因为在读取行之前需要标题。",
    "ja": "行の前にヘッダーが必要なので、ファイルは二回読み込まれます。",
    "ko": "행보다 먼저 헤더가 필요하기 때문에 파일을 두 번 읽습니다.",
    "ar": "يُقرأ الملف مرتين لأن العنوان مطلوب قبل الصفوف.",
    "el": "Το αρχείο διαβάζεται δύο φορές επειδή χρειάζεται η κεφαλίδα.",
}


@pytest.mark.parametrize("language", SAMPLES)
def test_told_apart(language):
    """
    One sentence is enough to tell a language.
    """
    assert language == detect_language(read_prose(SAMPLES[language]))


@pytest.mark.parametrize("text", ["", "Fixed.", "Tests pass.", "pytest -q", "1 2 3", "OK, parser done"])
def test_too_short(text):
    """
    Of a few words nothing is concluded.
    """
    assert detect_language(read_prose(text)) is None


def test_a_language_we_do_not_know():
    """
    Many words without one we know are in a language that is not known.
    """
    text = "Tiedosto luetaan kahdesti koska otsikko tarvitaan ennen rivien lukemista. " * 5

    assert "und" == detect_language(read_prose(text))


def test_scripts_without_spaces():
    """
    Where words are not set apart, two characters are about a word.
    """
    assert 10 == pytest.approx(len(read_prose("文件被读取两次因为在读取行之前需要标题").words), abs=1)


@pytest.mark.parametrize("words", ["der die das und ", "the of and is "])
def test_code_does_not_count(words):
    """
    The language is that of the prose.
    """
    assert detect_language(read_prose(f"```\n{words * 10}\n```")) is None


def test_every_language_has_its_words():
    """
    Every language a profile may name has small words or a script, and none is left out.
    """
    files = [load_lexicon("steadyhelm.style", name).entries for name in ("small_words", "scripts")]

    assert sorted((*files[0], *files[1])) == list(LANGUAGES)


class TestSmallWords:
    WORDS = load_lexicon("steadyhelm.style", "small_words")

    @given(
        st.lists(st.sampled_from(sorted({"parser"}.union(*(it.word_set for it in WORDS.entries.values())))))
    )
    def test_each_word_counts_for_all_its_languages(self, words):
        """
        A small word that several languages share counts for each of them.
        """
        counts = _count_by_language(words)

        assert counts == {
            language: sum(it in self.WORDS[language].word_set for it in words) for language in counts
        }
        assert "en" not in counts
