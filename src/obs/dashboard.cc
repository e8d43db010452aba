// SPDX-License-Identifier: Apache-2.0
// The page at "/". It knows no metric by name: it shows whatever /v1/stats holds, by kind.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "obs/http.h"

namespace larder::obs {
namespace {

constexpr std::string_view kStyle = R"css(
:root{--bg:#f6f5f1;--card:#fff;--ink:#1d2125;--dim:#6b737b;--line:#e3e1da;--accent:#2f6f4f;
--bad:#b3392f}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--card:#1c2024;--ink:#e7e9ea;--dim:#8d969e;
--line:#2b3036;--accent:#6fc597;--bad:#ef7f74}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}
header{display:flex;align-items:baseline;gap:14px;flex-wrap:wrap;margin-bottom:22px}
h1{font-size:24px;margin:0;letter-spacing:-.01em}
h2{font-size:12px;text-transform:uppercase;letter-spacing:.08em;color:var(--dim);margin:30px 0 8px}
nav{margin-left:auto}nav a{color:var(--dim);margin-left:16px}
#health{font-size:13px;padding:2px 10px;border-radius:99px;border:1px solid var(--line);
color:var(--dim)}
#health.ok{color:var(--accent);border-color:var(--accent)}
#health.no{color:var(--bad);border-color:var(--bad)}
#cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(200px,1fr));gap:14px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.card b{display:block;font-size:25px;font-weight:600;font-variant-numeric:tabular-nums}
.card span{color:var(--dim);font-size:13px;overflow-wrap:anywhere}
.card svg{display:block;width:100%;height:28px;margin-top:6px}
.card path{fill:none;stroke:var(--accent);stroke-width:1.5}
.box{background:var(--card);border:1px solid var(--line);border-radius:10px;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
td,th{padding:6px 14px;text-align:right;border-top:1px solid var(--line);
font-variant-numeric:tabular-nums;white-space:nowrap}
th{color:var(--dim);font-weight:500;border-top:0}
td:first-child,th:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere}
td i{color:var(--dim);font-style:normal}
)css";

constexpr std::string_view kFormatScript = R"js(
const highlights=@HIGHLIGHTS@;
const by=id=>document.getElementById(id);
const sig=v=>v<9.995?v.toFixed(2):v<99.95?v.toFixed(1):v.toFixed(0);
function steps(v,base,names){let i=0;while(Math.abs(v)>=base*0.9995&&i<names.length-1){v/=base;i++}
  return (i||v%1?sig(v):String(v))+names[i]}
const bytes=v=>steps(v,1024,[' B',' KiB',' MiB',' GiB',' TiB',' PiB']);
const plain=v=>steps(v,1000,['','k','M','G','T']);
const time=ns=>ns<1000?ns+' ns':steps(ns/1000,1000,[' µs',' ms',' s']);
const isBytes=n=>/_bytes(_total)?$/.test(n);
const show=(n,v)=>v===null?'–':isBytes(n)?bytes(v):
  /_ratio$/.test(n)?(v*100).toFixed(1)+' %':plain(v);
const labelText=l=>Object.entries(l).map(([k,v])=>k+'='+v).join(' ');
function el(tag,text,kid){const e=document.createElement(tag);
  if(text!==undefined)e.textContent=text;if(kid)e.append(kid);return e}
)js";

constexpr std::string_view kPageScript = R"js(
const past=new Map(),lines=new Map();
function rateOf(id,value,now){const old=past.get(id);past.set(id,[value,now]);
  if(!old||now<=old[1]||value<old[0])return null;return (value-old[0])*1000/(now-old[1])}
function trend(id,value){const l=lines.get(id)||[];l.push(value===null?0:value);
  if(l.length>60)l.shift();lines.set(id,l);return l}
function spark(list){const ns='http://www.w3.org/2000/svg',s=document.createElementNS(ns,'svg');
  s.setAttribute('viewBox','0 0 60 28');s.setAttribute('preserveAspectRatio','none');
  const top=Math.max(...list,1e-9),low=Math.min(...list,0),p=document.createElementNS(ns,'path');
  p.setAttribute('d',list.map((v,i)=>(i?'L':'M')+(60-list.length+i)+' '+
    (27-26*(v-low)/(top-low||1)).toFixed(1)).join(''));p.setAttribute('vector-effect',
    'non-scaling-stroke');s.append(p);return s}
function card(name,text,list){const c=el('div');c.className='card';
  c.append(el('b',text),el('span',name),spark(list));return c}
function row(cells,name,labels){const r=el('tr'),first=el('td',name+' ');
  first.append(el('i',labels));r.append(first);for(const c of cells)r.append(el('td',c));return r}
function table(id,heads,rows){const t=el('table'),h=el('tr');
  for(const x of heads)h.append(el('th',x));t.append(h,...rows);
  by(id).replaceChildren(t);by(id).parentElement.hidden=!rows.length}
function render(stats,now){const cards=[],counters=[],gauges=[],times=[],total={};
  for(const [name,family] of Object.entries(stats)){let sum=0,rate=null;
    for(const s of family.series){const labels=labelText(s.labels),id=name+'|'+labels;
      if(family.type==='counter'){const r=rateOf(id,s.value,now);
        if(r!==null)rate=(rate||0)+r;sum+=s.value;
        counters.push(row([r===null?'–':show(name,r)+'/s',show(name,s.value)],name,labels))}
      else if(family.type==='gauge'){sum+=s.value;
        gauges.push(row([show(name,s.value)],name,labels))}
      else{const r=rateOf(id,s.count,now);times.push(row([r===null?'–':plain(r)+'/s',
        plain(s.count),time(s.p50_ns),time(s.p99_ns),time(s.p999_ns),time(s.max_ns)],name,labels));
        if(r!==null)rate=(rate||0)+r;sum+=s.count}}
    const level=family.type==='gauge',value=level?sum:rate;
    total[name]={text:value===null?'–':level?show(name,value):
      (isBytes(name)?bytes(value):plain(value))+'/s',list:trend(name,value)}}
  const names=highlights.length?highlights:[
    ...Object.keys(stats).filter(n=>stats[n].type==='counter').slice(0,4),
    ...Object.keys(stats).filter(n=>stats[n].type==='gauge').slice(0,4)];
  for(const n of names)if(total[n])cards.push(card(n,total[n].text,total[n].list));
  by('cards').replaceChildren(...cards);
  table('times',['latency','rate','count','p50','p99','p99.9','max'],times);
  table('counters',['counter','rate','total'],counters);
  table('gauges',['level','now'],gauges)}
async function get(path){const a=new AbortController(),t=setTimeout(()=>a.abort(),3000);
  try{return await fetch(path,{cache:'no-store',signal:a.signal})}finally{clearTimeout(t)}}
async function tick(){const h=by('health');try{
  const health=await get('/healthz'),why=(await health.text()).trim();
  h.className=health.ok?'ok':'no';h.textContent=why;
  render(await (await get('/v1/stats')).json(),performance.now())}
  catch(e){h.className='no';h.textContent='no answer'}
  setTimeout(tick,1000)}
tick();
)js";

constexpr std::string_view kBody = R"html(<main>
<header><h1>@TITLE@</h1><span id="health">…</span>
<nav><a href="/healthz">health</a><a href="/metrics">metrics</a><a href="/v1/stats">stats</a></nav>
</header>
<noscript><p>This page needs JavaScript; the links above do not.</p></noscript>
<div id="cards"></div>
<section hidden><h2>Latencies</h2><div class="box" id="times"></div></section>
<section hidden><h2>Rates</h2><div class="box" id="counters"></div></section>
<section hidden><h2>Levels</h2><div class="box" id="gauges"></div></section>
</main>
)html";

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string replaced(std::string_view text, std::string_view mark, std::string_view with) {
  std::string out(text);
  for (std::size_t at = 0; (at = out.find(mark, at)) != std::string::npos; at += with.size()) {
    out.replace(at, mark.size(), with);
  }
  return out;
}

// Only what a metric name can be: nothing that could leave the script element.
std::string highlights_json(const std::vector<std::string>& names) {
  nlohmann::json out = nlohmann::json::array();
  for (const std::string& name : names) {
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == ':';
    });
    if (plain) out.push_back(name);
  }
  return out.dump();
}

}  // namespace

std::string dashboard_html(const DashboardOptions& options) {
  const std::string title = escape_html(options.title);
  std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n";
  page += "<title>" + title + "</title>\n<style>";
  page += kStyle;
  page += "</style></head><body>\n";
  page += replaced(kBody, "@TITLE@", title);
  page += "<script>";
  page += replaced(kFormatScript, "@HIGHLIGHTS@", highlights_json(options.highlights));
  page += kPageScript;
  page += "</script></body></html>\n";
  return page;
}

}  // namespace larder::obs
