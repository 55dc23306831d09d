"""What a sentence shows by its words: an instruction, a lasting fact, a correction, a conclusion, small talk.

Owns the patterns of both languages and :func:`read`; calls the reading of texts. Patterns say what is there; what is
done with it is :mod:`.write`'s. All of them are fixed and bounded, so none can be made slow by a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .sentences import folded

__all__ = ["Signals", "Slot", "mostly_han", "negations", "old_value_of", "read", "slot_of"]


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_HAN = "\u4e00-\u9fff"

REMEMBER: Final = _pattern(
    r"\b(?:please )?remember (?:that|this|to|my|our|the|i|we|:)|\bremember[:,]|\bkeep in mind\b|\b(?:do not|don['’]?t|never) forget\b",
    r"\bnote(?: down)? that\b|\bfor future reference\b|\bmake a note\b",
    r"记住|(?<![我还没不])记得(?!吗|不|[^，。！？]{0,12}[吗？])|记一下|记下来?|别忘|不要忘|牢记|切记|备忘",
)
STANDING: Final = _pattern(
    r"\bfrom now on\b|\bfrom today on\b|\bgoing forward\b|\bin (?:the )?future\b|\bby default\b|\bas a rule\b|\bwithout exception\b",
    r"^(?:please,? |and |but |so |also,? )*(?:always|never)\b(?! mind)|\b(?:you|we) (?:should |must |have to )?(?:always|never)\b|\b(?:must|should) (?:always|never)\b",
    r"\bevery time (?:you|we|i)\b|\bwhenever (?:you|we|i)\b|\bdefault to\b|\bi always want\b|\bi want (?:all|every)\b",
    r"从现在(?:起|开始)|从今(?:以后|往后|天起)|今后|往后(?!退)",
    rf"(?<![天年月周时钟之然事])以后(?![再了来，]{{1}}说|见|聊|就知道)[，,]?(?=[{_HAN}a-zA-Z])|默认|一律|每次|永远(?:不|都|别|要)|始终|务必|不要再|别再|一定要",
)
LASTING: Final = _pattern(
    r"\bmy (?:(?:new|current|first|last|full|favou?rite|preferred|home|work) )?(?:name|job|birthday|address|phone|number|e-?mail|wife|husband|son|daughter|hobby|hobbies|"
    r"timezone|time zone|language|team|company|manager|boss|favou?rite|\w+ (?:name|number|address|colou?r|food|drink|book|song|film|movie|team|language))\b[^?]{0,20}? (?:is|are|=)",
    r"\bmy (?:\w+ ){1,3}(?:is|are)\b",
    r"\b(?:i|we)(?:['’]?m| am|['’]?re| are) (?:(?:a|an|the|not|now|also|strictly|still) )*(?:allergic|vegetarian|vegan|left-handed|based|from|called|married|colou?r-?blind|lactose|diabetic|fluent|responsible|engineer|developer|teacher|doctor|student|designer|nurse|lawyer|manager|\w+(?:er|or|ist|ian)\b)",
    r"\b(?:i|we) (?:really |also |generally |usually |absolutely |still |do |don['’]?t |do not |strongly |much )*(?:like|love|prefer|enjoy|hate|dislike|detest|need|want everything|avoid|live|work (?:as|at|for|in|from)|"
    r"study|speak|own|drink|eat|use|play|cannot (?:eat|stand|bear)|can['’]?t (?:eat|stand|bear))\b",
    r"\b(?:i|we) (?:usually|always|never|often|only)\b|\bcall me\b|\bi go by\b|\bi(?:['’]ve| have) (?:a|an|two|three|been allergic)\b",
    r"\b(?:likes|loves|prefers|enjoys|hates|dislikes|detests|insists|expects|demands|requires|lives in|works (?:as|at|for|in)|is allergic|is vegetarian|is vegan|speaks|never|always|usually|doesn['’]t (?:like|eat|drink)|wants (?:all|every|his|her|their)|birthday is|plays|owns|studies|drinks|eats|collects|teaches|needs|cares about|has (?:a|an|two|three|the)|is (?:a|an|allergic|responsible|in charge|married|based|left-handed|fluent)|allergic to)\b",
    rf"我叫|我的名字|叫我(?=[{_HAN}A-Z])|我姓|我是(?!说|想|不是|要|在|来|觉|问|指|怕|否)|我的?[^，。！？是]{{1,10}}(?<![觉认以可意但于就还只总老说想])是|我家",
    r"(?:喜欢|偏好|偏爱|喜爱|热爱|爱(?:吃|喝|听|看|好|玩|用)|讨厌|厌恶|习惯(?:用|于|了)?|忌口|过敏|吃素|不吃|不喝|不抽|不用|只(?:吃|喝|用|看|接受|要)|住在|家住|来自|从事|就职|任职|上班|工作(?:是|在)|生日|会说|擅长|养了|负责|要求|是(?:个|一[个名位]|我们的?|公司的?|技术|素食)|会(?:弹|拉|唱|画|游泳|做饭|开车)|养(?:了|着)|希望(?:所有|每|邮件|以))",
)
TRANSIENT: Final = _pattern(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|just now|this (?:morning|afternoon|evening|week|weekend|month)|next (?:week|month)|last (?:night|week|month)|currently|for now|an? (?:hour|minute)s? ago|on (?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    r"今天|今晚|今早|明天|后天|昨天|前天|刚才|刚刚|现在(?!起|开始|是|住|用|改|在)|这周|本周|这个?(?:周末|月|星期)|下周|上周|上个?月|下个?月|待会|一会儿|等下|稍后|目前|最近|暂时|这次|本次",
)
QUESTION: Final = _pattern(
    r"[?？]\s*$|^(?:what|who|whom|whose|when|where|why|which|how|is|are|was|were|do|does|did|can|could|will|would|should|have|has)\b(?! (?:always|never))[^.!]*$",
    r"(?:吗|呢|么)[。！]?\s*$|^(?:什么|谁|哪|为什么|怎么|如何|几|多少|是不是|能不能|可不可以|要不要)",
)
REQUEST: Final = _pattern(
    r"^(?:please|pls|can you|could you|would you|will you|let['’]?s|help me|show me|give me|tell me|find me|write|draft|send|make|create|translate|summari[sz]e|explain|list|check|look up|book|open|run|fix|compare|calculate|remind me|schedule|search|generate|prepare|plan|add|set|read|review)\b",
    r"^(?:请|帮我|帮忙|麻烦|给我|给[^，。]{1,8}(?:写|发|打)|替我|能不能|可以帮|写一?[封篇份个]|查一?下|翻译|总结一下|解释|列出|生成|安排|提醒我|订|预订|打开|运行|算一?下|看一?下|再写|把[^，。]{1,16}(?:翻译|改写|发给|整理))",
)
CONCLUSION: Final = _pattern(
    r"\bconclu(?:de|ded|sion|sions)\b|\b(?:we|i|they|the team|the client|the customer) (?:have |had |both |all |finally )?(?:agreed|decided|chose|settled|confirmed|approved)\b|\b(?:the )?(?:final|agreed) (?:decision|result|answer|version|choice|price|date)\b",
    r"\b(?:in summary|to sum up|in short|turned out|turns out|the root cause|confirmed(?: that|:| by| filters?)?|resolved|is fixed|was fixed|fixed by|task (?:is )?(?:done|complete)|completed|deadline is|the result is|results?:|decision:|outcome:)\b",
    r"结论|决定(?!吗)|确定(?:了|为|用|下来)|确认(?!吗|一下)|选定|定下|敲定|定为|总结[：:]|综上|最终|结果(?:是|为|[：:])|已(?:经)?(?:完成|解决|修复|通过|批准)|原因是|根因|约定|商定|达成一致|拍板|筛选条件|方案(?:是|为|定)|截止(?:日期|时间)",
)
CORRECTION: Final = _pattern(
    r"^(?:no|nope|sorry|wait|oops|hm+)\b\s*[,.;:—–-]|\bactually\b|\bcorrection\b|\b(?:that|this|it)(?:['’]s| is| was) (?:wrong|not right|incorrect|outdated|no longer)\b|\bi (?:meant|misspoke|was wrong)\b",
    r"\bnot [^,.;]{1,40}, ?but\b|\bno longer\b|(?:\bnot|n['’]t) [^,.;]{1,40} any ?more\b|\binstead of\b|\brather than\b|\bchanged? (?:my|the|our|his|her|their|it|from|to)\b|\bhas changed\b|\bi(?:['’]ve| have)? (?:moved|switched|changed)\b",
    r"\bhas (?:moved|switched|changed)\b|\bmoved (?:back )?to\b|\bused to\b|\bscratch that\b|\b(?:is|are|live|lives|work|works) now\b|\bnow (?:is|are|live|lives|work|works|prefers?|likes?|called)\b|\bswitched to\b|\bback to\b",
    r"不对(?=[，,。！!：:]|$)|(?<!是)不是[^，。！？]{1,20}[，,]\s*(?:而)?是|(?<!是)不是[^，。！？]{1,12}而是|更正|纠正|改成|改为|改用|改回|改到|换成|换到|换回|说错了|记错了|搞错了|弄错了|写错了|其实|不再|已经不|搬到|搬去|搬回|搬家到|换了(?!吗)|现在(?:是|改|用|住|叫|换)|改喝|改吃|不(?:喜欢|喝|吃|用|住|做|在)[^，。！？]{0,8}了",
)
FORGET: Final = _pattern(
    r"^(?:please,? |ok,? |hey,? |now |and |just |can you |could you |i want you to |i['’]d like you to )*(?:forget (?:that|what|about|my|our|everything|all|the|it|his|her|their|\w+ \w+['’]s)|(?:delete|erase|remove|clear|wipe) [^.!?]{0,60}\b(?:memory|memories|what you (?:know|remember|stored))|(?:delete|erase) what you know|do not (?:remember|keep|store|save)|don['’]?t (?:remember|keep|store|save))\b",
    r"^(?:请|麻烦你?|你|帮我|现在)*(?:忘掉|忘了|忘记|把[^，。！？]{1,30}(?:忘掉|忘了|忘记|从记忆(?:中|里)?删)|(?:删除|删掉|清除|抹掉)[^，。！？]{0,30}(?:记忆|记住的|记录的|记下的)|(?:别|不要|不用)(?:再)?(?:记(?!错|混)|保存|存储))",
)
_TALK_EN: Final = (
    r"hi|hello|hey|howdy|hiya|yo|good (?:morning|afternoon|evening|night|day)|morning|evening|thanks?(?: (?:a lot|so much|you|again|very much|anyway))*|thank you(?: (?:so much|very much|again))?|"
    r"thx|ty|cheers|great|nice|cool|perfect|awesome|wonderful|excellent|lovely|ok(?:ay)?|k|sure|yes|yeah|yep|yup|no|nope|fine|alright|all right|got it|i see|understood|right|exactly|indeed|"
    r"hm+|uh+|um+|oh+|ah+|wow|haha+|lol|bye(?: bye)?|good ?bye|see you(?: (?:later|soon|tomorrow|around))?|take care|later|welcome|you(?:['’]re| are) welcome|no problem|no worries|never ?mind|sorry|please|"
    r"how are you(?: (?:doing|today))*|how(?:['’]s| is) it going|what['’]?s up|nice to meet you(?: too)?|nice weather(?: today)?|have a (?:nice|good|great) (?:day|one|weekend|evening)|i(?:['’]m| am) (?:fine|good|ok(?:ay)?|great|well)|"
    r"sounds good|that(?:['’]s| is) (?:great|fine|good|nice|cool|perfect|right|it)|well done|good job|good luck|sweet dreams|are you there|you there|happy to help|glad (?:to help|i could help)|let me know if you need anything(?: else)?|"
    r"(?:is there )?anything else(?: i can (?:help|do)(?: you with| for you)?)?|how can i help(?: you)?(?: today)?|of course|certainly|absolutely|too|again|there|all|everyone|today|and you|lovely day|what a day"
)
_TALK_ZH: Final = (
    r"你好[啊呀吗]?|您好|大家好|嗨|哈喽|喂|在吗|在不在|早上好|早安|早[啊呀]?|上午好|中午好|下午好|晚上好|晚安|午安|谢谢(?:你|您|大家|啦|了)?(?:的?(?:帮助|帮忙))?|多谢(?:你|您|了)?|感谢(?:你|您)?(?:的?(?:帮助|帮忙))?|"
    r"辛苦(?:了|你了|啦)|麻烦(?:你|您)了|不客气|不用谢|没关系|没事(?:儿|了)?|好梦|好好|好[的吧啊呀嘞了滴]?|行[吧啊]?|可以[的了]?|嗯+[呢啊]?|哦+|噢|啊+|呵+|哈+|嘻+|对不起|对[的啊呀]?|是[的啊呀]?|没问题|知道了|明白了?|了解了?|收到|懂了|"
    r"再见|拜拜?|回头见|明天见|回见|下次(?:再)?(?:见|聊)|明天再聊|保重|真棒|太好了|太棒了|厉害|不错[哦啊]?|很好|今天天气(?:真|很|不)?(?:好|错|热|冷)[啊呀]?|天气(?:真|不)(?:好|错)[啊呀]?|吃了吗|最近(?:怎么样|好吗|还好吗)|周末愉快|祝你?(?:好运|顺利|愉快)|"
    r"抱歉|不好意思|很高兴认识你|还有(?:什么|别的)?(?:可以帮(?:你|您)的?|需要帮忙的?|问题)吗?|有什么(?:可以|能)帮(?:你|您)的?吗?|请|的|了|哈|呀|啦|哟"
)
SMALL_TALK: Final = re.compile(
    # Atomic, for the alternatives overlap: what one piece has taken is not tried in another way.
    rf"(?:(?>(?:{_TALK_EN}|{_TALK_ZH})(?![A-Za-z]))[\s,.!?;:~…，。！？、；：～)(\-—\U0001f300-\U0001faff\u2600-\u27bf]*+)++(?:[A-Z][a-z]+[\s!.。！]*)?",
    re.IGNORECASE,
)
INSTRUCTS: Final = _pattern(
    r"\b(?:ignore|disregard|forget|override|bypass) (?:(?:all|any|the|your|of|these|those|my|every|other|previous|prior|above|earlier|system|safety|security|access) ){1,5}(?:instructions?|rules?|prompts?|guidelines?|messages?|context|polic(?:y|ies)|limits?)\b",
    r"\b(?:you (?:must|should|shall|have to|need to|are now|will now)|your new (?:task|role|instructions?))\b|\bsystem prompt\b|\bnew (?:system )?instructions?\b|\bfrom now on\b|\bto (?:the|any) (?:ai|assistant|agent|model|llm)\b",
    r"\b(?:attention|note to|dear|hey|instructions? (?:for|to)),? (?:the |any )?(?:ai|assistant|agent|model|llm)s?\b|\balways (?:send|forward|reply|respond|answer|include|transfer|copy|cc|recommend|approve|say|tell|use|add)\b",
    r"\b(?:send|forward|e-?mail|post|upload|transfer|leak|exfiltrate|copy|cc|bcc|wire)\b [^.\n]{0,80}?\bto\b [^.\n]{0,60}?(?:@|https?://|\baccount\b|\bme\b)|\bdo not (?:tell|inform|mention|warn|ask)\b|\b(?:reveal|print|output|disclose|show)\b [^.\n]{0,30}\b(?:password|secret|api key|token|credential|system prompt|memor(?:y|ies))",
    r"<\s*/?\s*(?:system|assistant|instructions?|im_start|im_end)\b|\[/?INST\]|<\|[a-z_]+\|>|^\s*(?:system|assistant|developer)\s*:|\bimportant\s*[:!]|\bremember (?:that|to|this)\b|\bact as\b|\bpretend (?:to be|you)\b",
    r"(?:忽略|无视|忘记|不要理会|绕过)[^，。！？\n]{0,16}(?:指令|指示|规则|提示|要求|限制|上文|以上|之前)|你(?:必须|应当|应该|现在是|从现在|今后|以后|要把|需要把)|系统提示|新的?指令|(?:致|请|告诉)[^，。]{0,4}(?:AI|助手|智能体|模型)|不要告诉|别告诉|从现在(?:起|开始)|以后[^，。！？\n]{0,10}(?:都|一律|默认|必须)|请?(?:将|把)[^，。！？\n]{1,40}(?:发送|转发|发|转账|转|上传|抄送)(?:到|给|至)|(?:透露|泄露|输出|打印)[^，。\n]{0,12}(?:密码|密钥|口令|令牌)|请?记住",
)
_HOW_TO_ANSWER = _pattern(
    r"\b(?:answer|answers|reply|replies|respond|responses?|speak|talk|address me|call me|explain|explanations?)\b",
    r"回答|回复(?![李王张])|答复|说话|称呼|叫我|解释",
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A property that has one value at a time: whose it is follows from ``about``.

    Attributes
    ----------
    name
        The property: ``name``, ``home``, ``employer``, or the words it was called by.
    value
        What it is.
    """

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Signals:
    """What the words of one text show; several may hold at once."""

    remember: bool = False
    standing: bool = False
    lasting: bool = False
    transient: bool = False
    question: bool = False
    request: bool = False
    conclusion: bool = False
    correction: bool = False
    forget: bool = False
    small_talk: bool = False
    instructs: bool = False
    how_to_answer: bool = False
    slot: Slot | None = None


_READ_AT_MOST = 4_000


def read(text: str) -> Signals:
    """Read a text for what it shows; its first 4,000 characters are looked at.

    Examples
    --------
    >>> read("From now on write my mails in Chinese").standing, read("以后报告默认用蓝色模板").standing
    (True, True)
    >>> read("Thanks a lot!").small_talk, read("谢谢，辛苦了！").small_talk, read("I like tea").small_talk
    (True, True, False)
    >>> read("其实我住在上海").correction, read("我住在上海").slot
    (True, Slot(name='home', value='上海'))
    """
    text = text[:_READ_AT_MOST].strip()
    return Signals(
        remember=REMEMBER.search(text) is not None,
        standing=STANDING.search(text) is not None,
        lasting=LASTING.search(text) is not None,
        transient=TRANSIENT.search(text) is not None,
        question=QUESTION.search(text) is not None,
        request=REQUEST.search(text) is not None,
        conclusion=CONCLUSION.search(text) is not None,
        correction=CORRECTION.search(text) is not None,
        forget=FORGET.search(text) is not None,
        small_talk=SMALL_TALK.fullmatch(text) is not None,
        instructs=INSTRUCTS.search(text) is not None,
        how_to_answer=_HOW_TO_ANSWER.search(text) is not None,
        slot=slot_of(text),
    )


_MINE = r"\b(?:my|our)\b"
_VALUE = r"(?P<value>[^,.;!?\n]{1,80})"
_VALUE_ZH = r"(?P<value>[^，。；！？,;!?\n]{1,40})"
_SLOTS: Final = (
    ("name", _pattern(rf"\bmy (?:full )?name is (?:now )?{_VALUE}|\bcall me {_VALUE.replace('value', 'other')}")),
    ("name", _pattern(rf"(?<!别)我叫{_VALUE_ZH}|我的?名字(?:现在)?(?:是|叫|改成|改为){_VALUE_ZH.replace('value', 'other')}")),
    ("home", _pattern(rf"\bi (?:now |currently )?live (?:now )?in {_VALUE}|\bi(?:['’]ve| have)? (?:just )?moved (?:back )?to {_VALUE.replace('value', 'other')}|\bi(?:['’]m| am) (?:now )?based in {_VALUE.replace('value', 'third')}")),
    ("home", _pattern(rf"我(?:家)?(?:现在|已经)?(?:住在|家住|住|搬到了?|搬去了?|搬回了?|搬家到了?){_VALUE_ZH}")),
    ("home", _pattern(rf"\b(?:lives (?:now )?in|now lives in|has moved to|moved to) {_VALUE}|(?:住在|搬到了?|搬去了?){_VALUE_ZH.replace('value', 'other')}")),
    ("employer", _pattern(rf"\bi (?:now )?work (?:now )?(?:at|for) {_VALUE}|我(?:现在)?在{_VALUE_ZH.replace('value', 'other')}(?:工作|上班)")),
    ("email", _pattern(rf"\b(?:e-?mail|e-?mail address) (?:is|changed to) (?:now )?(?P<value>\S{{3,80}})|(?:邮箱|电子邮件)(?:地址)?(?:现在)?(?:是|改成|改为|换成){_VALUE_ZH.replace('value', 'other')}")),
    ("phone", _pattern(rf"\b(?:phone|mobile|cell|telephone)(?: number)? (?:is|changed to) (?:now )?{_VALUE}|(?:电话|手机)(?:号码?)?(?:现在)?(?:是|改成|改为|换成){_VALUE_ZH.replace('value', 'other')}")),
)  # fmt: skip
_MY_SLOT = re.compile(
    rf"{_MINE} (?P<name>(?:[\w-]+ ){{0,3}}?[\w-]+) (?:is|are|changed to|has changed to) (?:now )?{_VALUE}",
    re.IGNORECASE,
)
_THEIR_SLOT = re.compile(
    rf"['’]s (?P<name>(?:[\w-]+ ){{0,2}}?[\w-]+) (?:is|are|changed to) (?:now )?{_VALUE}", re.IGNORECASE
)
_MY_SLOT_ZH = re.compile(
    rf"(?:我|我们)的?(?P<name>[{_HAN}A-Za-z]{{2,8}}?)(?:现在)?(?:是|改成了?|改为|换成了?|改到了?){_VALUE_ZH}"
)
_THEIR_SLOT_ZH = re.compile(
    rf"的(?P<name>[{_HAN}A-Za-z]{{2,8}}?)(?:现在)?(?:是|改成了?|改为|换成了?|改到了?){_VALUE_ZH}"
)
_MODIFIERS = re.compile(r"\b(?:new|current|old|own|usual|actual|real|correct|most|very)\b\s*|^(?:新|旧|正确|真正)的?")
# What one may have many of, or what is said about the talk rather than about the person.
_NO_SLOT = re.compile(
    r"(?:question|problem|point|opinion|guess|idea|issue|plan|answer|view|concern|thought|suggestion|friend|son|daughter|sister|brother|"
    r"mother|father|wife|husband|child|hobby|hobbie|interest|skill|allerg(?:y|ie)|pet|cat|dog|colleague|other \w+)s?\b|"
    r"(?:意思|问题|想法|看法|意见|观点|建议|爱好|兴趣|朋友|儿子|女儿|妹妹|姐姐|哥哥|弟弟|妈妈|爸爸|同事|觉得|认为|希望|以为|计划)"
)


def slot_of(text: str) -> Slot | None:
    """The single-valued property that a text states, if it states one.

    Examples
    --------
    >>> slot_of("My favourite colour is blue"), slot_of("My new favourite colour is green").name
    (Slot(name='favourite colour', value='blue'), 'favourite colour')
    >>> slot_of("李主任的电话是 8800"), slot_of("I like tea")
    (Slot(name='phone', value='8800'), None)
    """
    for name, pattern in _SLOTS:
        found = pattern.search(text)
        if found is not None:
            value = next(filter(None, found.groupdict().values()), "")
            return Slot(name, _bare(value))
    for pattern in (_MY_SLOT, _THEIR_SLOT, _MY_SLOT_ZH, _THEIR_SLOT_ZH):
        found = pattern.search(text)
        if found is not None:
            name = _MODIFIERS.sub("", folded(found["name"])).strip()
            return None if not name or _NO_SLOT.search(name) else Slot(name, _bare(found["value"]))
    return None


def _bare(value: str) -> str:
    return value.strip(" .。!！\"'“”")


_OLD = _pattern(
    r"\bnot (?:in |at |on |the |a )*([^,.;]{1,40}?)(?:, ?but\b| any ?more\b|[,.;]|$)|\bno longer (?:in |at |like |likes |prefer |prefers )*([^,.;]{1,40})|\b(?:instead of|rather than|from) ([^,.;]{1,40}?)(?: to\b|[,.;]|$)",
    r"不是([^，,。！？]{1,20}?)[，,]?\s*(?:而)?是|不再([^，。！？]{1,12})|不(?:喜欢|喝|吃|用|住在?)([^，。！？]{1,8})了|(?:把|从)([^，。！？]{1,16}?)(?:改|换|搬)",
)


def old_value_of(text: str) -> str | None:
    """What a correction says does not hold any more, when it says so.

    Examples
    --------
    >>> old_value_of("Not blue, but green"), old_value_of("会议不是周二，是周三"), old_value_of("It is green")
    ('blue', '周二', None)
    """
    found = _OLD.search(text)
    return None if found is None else next(filter(None, found.groups()), None)


_NEGATION = _pattern(r"\b(?:not|never|no|nor|without|cannot)\b|n['’]t\b", r"不|没|别|无|未|勿|非")


def negations(text: str) -> bool:
    """Whether a text denies something: an odd number of its words do."""
    return len(_NEGATION.findall(text)) % 2 == 1


def mostly_han(text: str) -> bool:
    """Whether a text is Chinese rather than anything with spaces between words."""
    han = sum("\u3400" <= sign <= "\u9fff" for sign in text)
    return 2 * han > len(text.replace(" ", "")) or (han > 0 and han >= len(text.split()))
