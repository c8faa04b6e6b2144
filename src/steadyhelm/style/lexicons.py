"""The words and phrases that give a padded reply away, by class; English, and all of them our own choice.

A word is *ambiguous* when it has a plain meaning beside the padded one: a robust estimator, just one file.
Each of them counts only together with a word that has no other meaning, beside two others of its class, or
in a reply that is too long.
"""

from typing import Final

from msgspec import Struct

HEDGES: Final = "hedges"
FILLER: Final = "filler"
HYPE: Final = "hype"
META: Final = "meta"


class MarkerTerms(Struct, frozen=True, kw_only=True):
    """One class of markers: words or phrases that count by themselves, and those that need company."""

    words: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()


def _terms(block: str) -> tuple[str, ...]:
    return tuple(term.strip() for term in block.replace("\n", ",").split(",") if term.strip())


_HEDGES: Final = """
    perhaps, maybe, possibly, presumably, arguably, conceivably, supposedly, somewhat, kind of, sort of
    i think, i believe, i guess, i suppose, i feel like, i would say, i'd say, i would imagine, i'd imagine
    it seems, it would seem, it appears that, it would appear, seems like, looks like it might
    might want to, may want to, might be able to, may or may not, could potentially, might potentially
    potentially, more or less, to some extent, to some degree, to a certain extent, to a certain degree
    in some ways, in a sense, in a way, not entirely sure, not completely sure, not a hundred percent
    i'm not sure, i am not sure, as far as i can tell, as far as i know, if i'm not mistaken, if i recall
    hard to say, it depends on a number, it's possible that, it is possible that, there's a chance
    there is a chance, one could argue, one might argue, some might say, some would say, could be argued
    i could be wrong, i may be wrong, i might be wrong, don't quote me, take this with a grain
    for what it's worth, if that makes sense, or something like that, or something along those lines
"""
_HEDGES_AMBIGUOUS: Final = """
    probably, likely, apparently, seemingly, fairly, might be, seems to, appears to, may be, could be
    should be able to, tends to, in some cases, in many cases, in general
"""
_FILLER: Final = """
    basically, essentially, literally, obviously, frankly, honestly, needless to say, of course, as you know
    as you may know, as you might know, as you can see, as we all know, as you are aware
    it is important to note, it's important to note, it is important to remember, it's important to remember
    it is worth noting, it's worth noting, it is worth mentioning, it's worth mentioning, worth pointing out
    it should be noted, it goes without saying, please note that, please be aware, please keep in mind
    at the end of the day, for all intents and purposes, when all is said and done, in the grand scheme
    having said that, that being said, that said, with that said, with that being said, be that as it may
    first and foremost, last but not least, in a nutshell, all in all, by and large, each and every
    the fact of the matter, the fact that, due to the fact that, in terms of, when it comes to
    with regard to, with regards to, with respect to the question of, in the event that
    at this point in time, feel free to, don't hesitate, do not hesitate, hope this helps, hope that helps
    hope this clarifies, let me know if, let me know whether, please let me know, if you have any questions
    any other questions, any further questions, happy to help, glad to help, here to help, happy to assist
    glad to assist, i'd be happy to, i would be happy to, i'd be glad to, i'd love to, i would love to
    i'm more than happy, great question, good question, excellent question, fantastic question
    thanks for asking, thank you for asking, thank you for sharing, thank you for reaching out
    thanks for reaching out, thank you for your patience, thank you for bringing, thank you so much
    thanks so much, thanks a lot, i apologize for, i apologise for, my apologies, my sincere apologies
    sorry for the confusion, sorry for any confusion, sorry about the confusion, sorry for the inconvenience
    i completely understand, i totally understand, i understand your frustration, i understand that you
    you're absolutely right, you are absolutely right, absolutely right, great point, good point
    excellent point, great idea, great catch, good catch, nice catch, certainly, absolutely, definitely
    sure thing, no worries, as always, so to speak, you know what, to be honest, to be perfectly honest
    to be fair, truth be told, a wide range of, a wide variety of, a number of different, a whole host of
    the bottom line is
"""
_FILLER_AMBIGUOUS: Final = """
    just, simply, actually, really, very, quite, clearly, totally, truly, indeed, thanks, thank you, please
    sorry, in order to, in fact, overall, additionally, furthermore, moreover, keep in mind
"""
_HYPE: Final = """
    amazing, amazingly, awesome, incredible, incredibly, fantastic, wonderful, wonderfully, phenomenal
    stunning, stunningly, brilliant, brilliantly, superb, exceptionally, terrific, unparalleled, unrivaled
    unmatched experience, extraordinary, remarkable, remarkably, magnificent, gorgeous, delightful
    delightfully, thrilled, excited to, exciting, super excited, mind blowing, game changer, game changing
    groundbreaking, ground breaking, revolutionary, revolutionize, revolutionise, revolutionizes
    transformative, world class, best in class, next level, top notch, second to none, blazing fast
    blazingly fast, lightning fast, rock solid, bulletproof, supercharge, supercharged, turbocharge
    effortless, effortlessly, magical, magically, hassle free, painless, painlessly, works like a charm
    works like magic, works flawlessly, flawless, flawlessly, beautifully crafted, unlock the full potential
    unleash the power, unleash, take it to the next, delve, delving, delves, rest assured, pave the way
    paves the way, testament to, treasure trove, ever evolving, fast paced world, in today's world, huge win
    massive win, fully production ready, excellent, perfect solution
"""
_HYPE_AMBIGUOUS: Final = """
    robust, robustly, powerful, leverage, leverages, leveraging, seamless, seamlessly, elegant, elegantly
    comprehensive, comprehensively, dynamic, optimal, rich, solid, smart, modern, sophisticated, exceptional
    perfect, perfectly, great, huge, massive, massively, dramatically, significantly, super, ultimate, ideal
    crucial, vital, innovative, unlock, unlocks, streamline, streamlined, elevate, outstanding, cutting edge
    state of the art, enterprise grade, production ready, battle tested, future proof, scalable, beautiful
    beautifully, impressive, fascinating, vibrant, landscape, tapestry, realm, journey
"""
_META: Final = """
    let me explain, let me walk you through, let me walk through, let me take you through, let me break
    let me start by, let me begin by, let me first explain, let me summarize, let me summarise, let me recap
    let me elaborate, let me clarify, let me outline, let me describe, let me go over, let me go through
    let me give you, let me provide, let me share, let me address, let me present, let me unpack
    let me think about this, let me think through, let me think step, let me put it, let me be clear
    let's dive in, let's dive into, let's dive deeper, let's break this, let's break it, let's break down
    let's explore, let's walk through, let's unpack, let's go through, let's start by, let's begin by
    let's begin with, let us begin, let us explore, let us examine, let us dive, let's take a closer look
    i'll now explain, i will now explain, i'll explain, i will explain, i'm going to explain
    i am going to explain, i'll walk you through, i will walk you through, i'm going to walk you
    i am going to walk you, i'll break this, i will break this, i'll break it, i'll go over, i will go over
    i'll outline, i will outline, i'll describe how, i will describe how, i'll provide a, i will provide a
    i'll now provide, i will now provide, i'll start by explaining, i will start by explaining
    i'll begin by explaining, i will begin by, i'll summarize, i will summarize, i'll try to explain
    before we begin, before i begin, before we start, before we dive, before diving, to begin with
    in this response, in this answer, in this message, in this explanation, in this section, in this guide
    in what follows, in the following section, in the next section, in the sections below, as i mentioned
    as i said, as i explained, as mentioned earlier, as mentioned above, as mentioned before
    as previously mentioned, as previously stated, as stated above, as noted above, as noted earlier
    as discussed above, as discussed earlier, as we discussed, as we have seen, as we've seen
    as outlined above, in summary, in conclusion, to conclude, to sum up, to recap, summing up, to summarize
    to summarise, to answer your question, to address your question, regarding your question
    your question is about, here is a breakdown, here's a breakdown, here is an overview, here's an overview
    here is a summary of what, here's a detailed, here is a detailed, here is a comprehensive
    here's a comprehensive, moving on to, with that in mind, with this in mind, with that out of the way
    what this means is, what that means is, in other words, to put it simply, put simply, simply put
    to put it another way, without further ado, as an ai, as a language model, my thought process
    my thinking here, the purpose of this response, i want to make sure, i wanted to make sure
    i want to be clear, i want to emphasize, i want to highlight, i'd like to point out
    i would like to point out, i'd like to emphasize, i should mention that, i should also mention
    it bears repeating, to reiterate, let me reiterate, circling back
"""
_META_AMBIGUOUS: Final = """
    step by step, the following, as follows, first of all, above all, on the one hand, on the other hand
    high level, deep dive, in detail, take a look, for context, breakdown
"""

ENGLISH: Final = {
    HEDGES: MarkerTerms(words=_terms(_HEDGES), ambiguous=_terms(_HEDGES_AMBIGUOUS)),
    FILLER: MarkerTerms(words=_terms(_FILLER), ambiguous=_terms(_FILLER_AMBIGUOUS)),
    HYPE: MarkerTerms(words=_terms(_HYPE), ambiguous=_terms(_HYPE_AMBIGUOUS)),
    META: MarkerTerms(words=_terms(_META), ambiguous=_terms(_META_AMBIGUOUS)),
}
