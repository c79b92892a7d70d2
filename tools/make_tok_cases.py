#!/usr/bin/env python3
"""Make tests/data/text/tok: small tokenizers of every kind and what the reference gives for awkward texts.

    pip install tokenizers==0.23.3
    tools/make_tok_cases.py tests/data/text/tok

Each tokenizer is trained on, or written for, the sentences below (training is not deterministic: a new run gives other, equally
valid cases), saved as NAME.json, and read back from there, so that
the oracle sees the same file as gyre. expected.json holds for each text: ids, with_special (ids with the post-processor,
where different), literal (special tokens' names taken as text, where different), decoded, skipped (special tokens left
out, where different). Texts that the reference refuses are left out.
"""
import itertools
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The miller counts the sacks of flour before the rain comes down from the hills.",
    "Every evening she writes three letters and posts none of them.",
    "Numbers like 17, 204 and 3999 are read digit by digit in this village.",
    "Le gar\u00e7on a mang\u00e9 une cr\u00eape \u00e0 c\u00f4t\u00e9 de l'\u00e9cole; l'hiver, il pr\u00e9f\u00e8re le th\u00e9.",
    "Gr\u00f6\u00dfere Stra\u00dfen f\u00fchren \u00fcber die Br\u00fccke zum S\u00fc\u00dfwasserhafen.",
    "\u0412\u0435\u0447\u0435\u0440\u043e\u043c \u0441\u0442\u0430\u0440\u044b\u0439 \u043c\u0435\u043b\u044c\u043d\u0438\u043a \u0441\u0447\u0438\u0442\u0430\u0435\u0442 \u043c\u0435\u0448\u043a\u0438 \u0438 \u043f\u044c\u0451\u0442 \u0447\u0430\u0439.",
    "\u05e9\u05dc\u05d5\u05dd, \u05d4\u05d8\u05d7\u05e0\u05d4 \u05e1\u05d2\u05d5\u05e8\u05d4 \u05d4\u05d9\u05d5\u05dd",
    "\u0627\u0644\u0637\u0627\u062d\u0648\u0646\u0629 \u0645\u063a\u0644\u0642\u0629 \u0627\u0644\u064a\u0648\u0645",
    "\u7c89\u5c4b\u306f\u96e8\u306e\u524d\u306b\u888b\u3092\u6570\u3048\u308b\u3002\u78e8\u574a\u4e3b\u5728\u4e0b\u96e8\u524d\u6570\u888b\u5b50\u3002",
    "\ubc29\uc557\uac04 \uc8fc\uc778\uc740 \ube44\uac00 \uc624\uae30 \uc804\uc5d0 \uc790\ub8e8\ub97c \uc13c\ub2e4.",
    "for (i = 0; i < n; i++) { total += sacks[i]; }",
    "She's said they'll be back, but we've heard that before; it isn't likely.",
    "emoji \U0001f642 and flags \U0001f1ee\U0001f1f9 and families \U0001f469\u200d\U0001f469\u200d\U0001f467 travel badly",
]
TEXTS = [
    "", " ", "  ", "   ", "\n", "\r\n\t ", "a", " a", "a ", "  a  b ", "The miller counts", "the Miller's sacks", "the  miller\n\ncounts",
    "It isn't likely; she's heard we've been there, they'll say.", "I'LL WE'VE DON'T", "17 204 3999 12345678", "\uff13\uff19 \u0663\u0664 \u00bd \u00b2",
    "gar\u00e7on", "garc\u0327on", "e\u0301e\u0301", "\u0301", "a\u0300\u0301\u0302b", "STRASSE Stra\u00dfe \u1e9e", "\u0130stanbul \u0131", "\u0412\u0435\u0447\u0435\u0440\u043e\u043c \u043f\u044c\u0451\u0442", "\u05e9\u05dc\u05d5\u05dd, \u05d4\u05d8\u05d7\u05e0\u05d4",
    "\u0627\u0644\u0637\u0627\u062d\u0648\u0646\u0629 \u0645\u063a\u0644\u0642\u0629", "\u202b\u05e9\u05dc\u05d5\u05dd\u202c abc", "\u7c89\u5c4b\u306f\u96e8\u306e\u524d\u306b", "\u78e8\u574a\u4e3b abc \u6570\u888b\u5b50123", "\ubc29\uc557\uac04 \uc8fc\uc778", "\u1112\u1161\u11ab", "\U0001f642", "\U0001f642\U0001f642 \U0001f1ee\U0001f1f9", "\U0001f469\u200d\U0001f469\u200d\U0001f467!", "x\U0001f44d\U0001f3fdy",
    "\u00a0a\u2003b\u3000", "\u200b\ufeff", "\u0000\u0001\u007f", "\ufffd\ufffe", "\U0010ffff\U000e0041", "<0x41><0xE2>", "\u2581", "\u2581the \u2581", "##er", "</w>", "\u0120the \u010a",
    "zzzzqqqq", "thethethethe", "a" * 70, "ab" * 90, "x" * 33, "\u00e9" * 20, "," * 40, "The quick brown fox jumps. Over the lazy dog?", "do not say 's or n't .", "[CLS] [SEP] [UNK]",
    "<s>", "</s>", "<s>a", "a<s>", "a <s> a", "<s><s>", "<s>a</s>\n<s> b</s>", "<unk>", "<|end|>", "x<|end|>y", " <|end|> ", "<|end|", "{total += sacks[i];}", "a\u08ca\u0328 e\u08ca\u0301 e\u0301\u0328", "\U00011935\U00011930 \U000105d2\u0307 \u32ff", "https://example.org/a?b=c#d",
]
ADDED_TEXTS = ["<%s>" % "".join(f) for f in itertools.product("sS", "lL", "rR", "nN", "xX")]


def frames(names):
    out = []
    for n in names:
        out += ["a " + n + " b", "a" + n + "b", "  %s  " % n, n + n, n + " " + n, n.upper() + "." + n.lower(), "_" + n + "1"]
    return out


def byte_bpe(size, **kw):
    tk = Tokenizer(models.BPE(**kw))
    tk.normalizer = normalizers.NFC()
    tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tk.decoder = decoders.ByteLevel()
    tk.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tk


def bytelevel():
    tk = byte_bpe(420)
    tk.add_special_tokens(["<s>", "</s>", "<|end|>"])
    return tk, [], "byte-level BPE, NFC"


def llama3_like():
    tk = byte_bpe(420, ignore_merges=True)
    tk.normalizer = None
    split = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    tk.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tk.add_special_tokens(["<s>", "</s>"])
    s = tk.token_to_id("<s>")
    tk.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", s)])])
    return tk, [], "Split regex, ignore_merges, a Sequence of post-processors"


def prefix_space():
    tk = byte_bpe(400)
    tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tk.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    tk.post_processor = processors.RobertaProcessing(("</s>", tk.token_to_id("</s>")), ("<s>", tk.token_to_id("<s>")))
    return tk, frames(["<mask>"]), "add_prefix_space, RobertaProcessing"


def fallback_vocab(names):
    v = {"<unk>": 0, "<s>": 1, "</s>": 2, **{"<0x%02X>" % i: 3 + i for i in range(256)}}
    for n in names:
        v.setdefault(n, len(v))
    return v


def char_bpe_parts(size):
    """Vocabulary and merges over characters with spaces as marks, from the trainer."""
    tk = Tokenizer(models.BPE(unk_token="<unk>"))
    tk.normalizer = normalizers.Replace(" ", "\u2581")
    tk.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>"], max_token_length=8, show_progress=False))
    m = json.loads(tk.to_str())["model"]
    return m["vocab"], [tuple(x) for x in m["merges"]]


def sentencepiece_bpe(prepend):
    def f():
        vocab, merges = char_bpe_parts(330)
        v = fallback_vocab(vocab)
        tk = Tokenizer(models.BPE(vocab=v, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        replace = normalizers.Replace(" ", "\u2581")
        tk.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), replace]) if prepend else replace
        tk.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()] + ([decoders.Strip(" ", 1, 0)] if prepend else []))
        tk.add_special_tokens(["<unk>", "<s>", "</s>"])
        tk.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
        return tk, [], "BPE over characters with byte fallback, %s" % ("Prepend and Strip" if prepend else "no space in front")
    return f


def crossing():
    """Merges across words, and one with a byte token: pieces must not be cut there."""
    v = fallback_vocab(["\u2581", "a", "b", "c", "ab", "b\u2581", "\u2581c", "b\u2581c", "<0x41>a", "a\u2581"])
    m = [("b", "\u2581"), ("b\u2581", "c"), ("a", "b"), ("<0x41>", "a"), ("a", "\u2581"), ("\u2581", "c")]
    tk = Tokenizer(models.BPE(vocab=v, merges=m, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tk.normalizer = normalizers.Replace(" ", "\u2581")
    tk.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tk, ["ab c", "a b c", "Aa", "AaAa b c", "b cb c", "abc ab c a"], "merges across words and with a byte token"


def partial_fallback():
    v = {"<unk>": 0, "a": 1, "b": 2, " ": 3, "<0xC3>": 4, "<0xA9>": 5, "ab": 6}
    tk = Tokenizer(models.BPE(vocab=v, merges=[("a", "b")], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    return tk, ["a\u00e9b", "x\u00e9x", "xx\u00e9", "\u00e9xx a", "ab \u00e9\u00e9"], "byte fallback with a few of the bytes only"


def no_unk():
    tk = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "ab": 2, "c": 3}, merges=[("a", "b")]))
    return tk, ["axb", "xaxbxc", "abcab"], "neither unknown token nor fallback: characters vanish"


def unk_single():
    v = {"<unk>": 0, "a": 1, "b": 2, "ab": 3, " ": 4}
    tk = Tokenizer(models.BPE(vocab=v, merges=[("a", "b")], unk_token="<unk>", fuse_unk=False))
    return tk, ["axyb", "xxx ab"], "unknown characters one by one"


def affixes():
    words = "low lower lowest new newer newest wide".split()
    tk = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tk.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tk.train_from_iterator(words * 3, trainers.BpeTrainer(vocab_size=80, special_tokens=["<unk>"], continuing_subword_prefix="##", end_of_word_suffix="</w>", show_progress=False))
    tk.decoder = decoders.BPEDecoder(suffix="</w>")
    return tk, ["lower newest wide", "low", "slower", "widest new"], "BPE with a prefix inside words and a suffix at their end"


def clip_like():
    tk = Tokenizer(models.BPE(unk_token="<|end|>", end_of_word_suffix="</w>"))
    tk.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tk.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tk.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=800, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), end_of_word_suffix="</w>", show_progress=False))
    tk.decoder = decoders.ByteLevel()
    return tk, [], "byte-level BPE with a suffix at the end of words, lower case"


def unigram(byte_fallback):
    def f():
        tk = Tokenizer(models.Unigram())
        tk.pre_tokenizer = pre_tokenizers.Metaspace()
        tk.train_from_iterator(SENTENCES, trainers.UnigramTrainer(vocab_size=330, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False))
        d = json.loads(tk.to_str())
        vocab = [tuple(x) for x in d["model"]["vocab"]]
        if byte_fallback:
            vocab += [("<0x%02X>" % i, -12.5) for i in range(256)]
        vocab = [(n, round(s, 4)) for n, s in vocab]
        tk = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=byte_fallback))
        tk.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
        tk.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        tk.decoder = decoders.Metaspace(prepend_scheme="always") if not byte_fallback else decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")])
        tk.add_special_tokens(["</s>"])
        tk.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
        return tk, [], "Unigram" + (" with byte fallback" if byte_fallback else "")
    return f


def unigram_whole():
    tk, _, _ = unigram(True)()
    tk.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tk.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tk, [], "Unigram over the whole text"


def wordpiece(cleanup):
    def f():
        tk = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
        tk.normalizer = normalizers.BertNormalizer(lowercase=True)
        tk.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tk.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False))
        d = json.loads(tk.to_str())
        d["model"]["max_input_chars_per_word"] = 40
        tk = Tokenizer.from_str(json.dumps(d))
        tk.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        tk.decoder = decoders.WordPiece(cleanup=cleanup)
        return tk, [], "WordPiece, BertProcessing" + (", clean-up" if cleanup else "")
    return f


def wordlevel():
    tk = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tk.normalizer = normalizers.Lowercase()
    tk.pre_tokenizer = pre_tokenizers.Whitespace()
    tk.train_from_iterator(SENTENCES, trainers.WordLevelTrainer(vocab_size=150, special_tokens=["<unk>", "<s>"], show_progress=False))
    return tk, [], "WordLevel, no decoder"


def metaspace(scheme, split):
    def f():
        vocab, merges = char_bpe_parts(300)
        tk = Tokenizer(models.BPE(vocab=fallback_vocab(vocab), merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tk.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
        tk.decoder = decoders.Metaspace(prepend_scheme=scheme)
        tk.add_special_tokens(["<s>", "</s>"])
        return tk, [], "Metaspace %s, split %s" % (scheme, split)
    return f


def added(normalizer, why):
    """Tokens with every combination of flags: upper case letters mean set."""
    def f():
        tk = byte_bpe(300)
        tk.normalizer = normalizer
        names = []
        for n in ADDED_TEXTS:
            single, left, right, normal, special = (c.isupper() for c in n[1:-1])
            # A number keeps names apart that are equal in lower case: which of those wins is chance in the reference.
            names.append("q%s%02d" % (n[1:-1], len(names)))
            t = AddedToken(names[-1], single_word=single, lstrip=left, rstrip=right, normalized=normal, special=special)
            (tk.add_special_tokens if special else tk.add_tokens)([t])
        tk.add_tokens([AddedToken(" qq", normalized=False), AddedToken("qq q", normalized=True), AddedToken("\u00c9a", normalized=True), AddedToken("\n\n", normalized=False)])
        one, other, last, word = names[20], names[4], names[31], names[16]
        more = frames(names) + [names[0] + n for n in names] + [" qq", "a qq q", "\u00c9A \u00e9a \u00c9a e\u0301a", "a\n\n\nb\n\n", one + " \u00a0 " + other + " qq", "\u3000" + last + "\u3000"]
        more += ["a" + word, word + "\u0301", word + "\u200d", "\u24b6 " + word, "\u24b6" + word, word + "\u0663", word + "\u203f", "-" + word + "-"]
        return tk, more, why
    return f


SETS = dict(
    bytelevel=bytelevel, llama3_like=llama3_like, prefix_space=prefix_space, sentencepiece=sentencepiece_bpe(True), sentencepiece_bare=sentencepiece_bpe(False),
    crossing=crossing, partial_fallback=partial_fallback, no_unk=no_unk, unk_single=unk_single, affixes=affixes, clip_like=clip_like, unigram=unigram(False),
    unigram_bytes=unigram(True), unigram_whole=unigram_whole, wordpiece=wordpiece(False), wordpiece_clean=wordpiece(True), wordlevel=wordlevel,
    metaspace_first=metaspace("first", True), metaspace_never=metaspace("never", True), metaspace_whole=metaspace("always", False),
    added_lower=added(normalizers.Lowercase(), "added tokens of every combination of flags, lower case"), added_plain=added(None, "added tokens of every combination of flags"),
)


def without_special(tk, ids):
    """The reference knows a special token by its content even where decoding gives its normalised form, so that it shows
    some of those with normalized:true. Leaving out their ids is what the option means."""
    special = {i for i, a in tk.get_added_tokens_decoder().items() if a.special}
    return tk.decode([i for i in ids if i not in special], skip_special_tokens=False)


def row(tk, text):
    tk.encode_special_tokens = False
    try:
        ids = tk.encode(text, add_special_tokens=False).ids
    except Exception:  # the reference refuses: an unknown token is needed but not there
        return None
    full = tk.encode(text, add_special_tokens=True).ids
    tk.encode_special_tokens = True
    literal = tk.encode(text, add_special_tokens=False).ids
    tk.encode_special_tokens = False
    r = dict(text=text, ids=ids, decoded=tk.decode(ids, skip_special_tokens=False))
    if "<0x" in text and "\ufffd" in r["decoded"]:
        return None  # byte tokens that text names, in a run with a bad one: see decode_rows
    skipped = without_special(tk, ids)
    for key, value, plain in (("with_special", full, ids), ("literal", literal, ids), ("skipped", skipped, r["decoded"])):
        if value != plain:
            r[key] = value
    return r


def decode_rows(tk, seed):
    """Decoding of ids in no order that a text gives. Byte tokens are left out: the reference replaces a whole run of them
    when one is bad, which a stream cannot do."""
    r = random.Random(seed)
    ids = sorted(i for n, i in tk.get_vocab(with_added_tokens=True).items() if not (len(n) == 6 and n.startswith("<0x")))
    rows = []
    for k in range(25):
        pick = [r.choice(ids) for _ in range(r.randrange(1, 14))]
        rows.append(dict(ids=pick, decoded=tk.decode(pick, skip_special_tokens=False), skipped=without_special(tk, pick)))
    return rows


def main(out):
    os.makedirs(out, exist_ok=True)
    tokenizers = []
    for name, make in SETS.items():
        tk, more, why = make()
        path = os.path.join(out, name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(json.loads(tk.to_str()), separators=(",", ":")) + "\n")
        tk = Tokenizer.from_file(path)
        # BertNormalizer of the reference knows no mark newer than Unicode 8; gyre removes those too.
        texts = [t for t in TEXTS + more if not ("\u08ca" in t and "wordpiece" in name)]
        rows = [r for r in (row(tk, t) for t in texts) if r]
        tokenizers.append('{"file": %s, "why": %s, "texts": [\n%s],\n"decode": [\n%s]}' % (
            json.dumps(name + ".json"), json.dumps(why), ",\n".join(json.dumps(r) for r in rows), ",\n".join(json.dumps(r) for r in decode_rows(tk, name))))
        print(name, len(rows), tk.get_vocab_size())
    with open(os.path.join(out, "expected.json"), "w", encoding="utf-8") as f:
        f.write('{"about": "made by tools/make_tok_cases.py with Hugging Face tokenizers", "tokenizers": [\n' + ",\n".join(tokenizers) + "\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
